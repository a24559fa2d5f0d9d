"""Optimizers of PyTorch with what the device adds: the scale of the loss, types of states.

A number that a program states is variable: the host may change it between runs. One that is left
out is a constant of the program.
"""

from poptorch.optim.adam import Adam, AdamW
from poptorch.optim.lamb import LAMB
from poptorch.optim.optimizer import Optimizer
from poptorch.optim.rmsprop import RMSprop
from poptorch.optim.sgd import SGD
from poptorch.optim.variable_attributes import VariableAttributes

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]
