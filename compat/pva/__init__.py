"""A module for programs written against libpva, over the analyser."""
