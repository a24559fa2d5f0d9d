"""Models on the device: compiled when they are called first, with weights that both sides share.

`arguments` and `batches` are about calls, `engine_optimizer` about training, `export` makes the
operator graph of a module and `program` its program, `wrapped_model` keeps both sides' weights
equal.
Executors are divided by subject; every file adds its methods to a class of the ones before it:
`stated`, `weights`, `optimized`, `attached`, `compiled`, `saved`, `reported`, `executor`.
"""
