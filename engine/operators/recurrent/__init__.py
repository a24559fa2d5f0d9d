"""LSTM, GRU and RNN."""

from tilescope.engine.operators.recurrent.layers import LAYERS
from tilescope.engine.operators.recurrent.training import RECORDS as _OF_TRAINING

__all__ = ["RECORDS"]

RECORDS = (*LAYERS, *_OF_TRAINING)
