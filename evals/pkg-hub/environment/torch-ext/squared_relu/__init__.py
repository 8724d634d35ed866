import squared_relu.layers as layers
from squared_relu.functional import squared_relu

__all__ = ["squared_relu", "squared_relu_", "layers"]
