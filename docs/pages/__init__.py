"""The generated reference pages, one module per page: ``render`` returns it as Markdown."""
