"""Models on the device: compiled when they are called first, with weights that both sides share.

`arguments` and `batches` are about calls, `engine_optimizer` about training, `program` makes the
program of a module, `weights` and `wrapped_model` keep both sides' weights equal, `executor` has
the methods that programs call.
"""
