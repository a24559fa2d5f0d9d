"""The generated reference pages, one module each: ``render`` returns the page as Markdown."""
