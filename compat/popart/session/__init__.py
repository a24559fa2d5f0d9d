"""Sessions: a model compiled for a device, and run step by step.

Every file has a subject and adds its methods to a class of the ones below it: `stated`, `compiled`,
`weights` and `random_numbers`, `running`, `reported`, `sessions`. What sessions refuse is in
`popart.refusals`, how a model is trained in `popart.training`.
"""

from popart.errors import OutOfMemoryException
from popart.session.sessions import InferenceSession, TrainingSession

__all__ = ["InferenceSession", "OutOfMemoryException", "TrainingSession"]
