"""The rest of the class Tensor: operators, PyTorch's methods, conversions, NumPy's own calls, hooks."""
