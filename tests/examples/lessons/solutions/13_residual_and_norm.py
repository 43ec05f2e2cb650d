import tinytensor as tt


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / tt.sqrt(variance + eps) * weight + bias


def sublayer(x, f, norm, norm_first):
    return x + f(norm(x)) if norm_first else norm(x + f(x))
