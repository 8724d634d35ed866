from . import layers
from .functional import squared_relu

__all__ = ["squared_relu", "layers"]
