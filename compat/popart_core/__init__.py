"""The binding behind `popart`: programs that import it by this name get the same objects."""

from popart import *  # noqa: F403 - all public names
from popart import __all__ as __all__
