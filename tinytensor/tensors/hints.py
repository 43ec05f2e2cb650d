"""PyTorch's and NumPy's names, and how to write them here: the words of an error about a missing name.

Loaded when such an error is raised, and never before. `docs/names.md` has the rule that these tables follow.

A line of a table is one of three:

    names = ours: example       tinytensor has it, under the name in the array API standard
    names: example              it is written with what is there
    names                       it is left out

In the examples x and y are matrices, v is a vector, i a vector of integers, mask of booleans, p of probabilities, z of
complex numbers, n is a number, tensors a list, and data is models.data. The error puts what follows a `#` in
parentheses.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import numpy as np

import tinytensor as tt

from ..messages import describe

if TYPE_CHECKING:
    from ..primitive import Primitive

PACKAGE = """
    cat concatenate = concat: tt.concat(tensors, axis=0)
    row_stack: tt.vstack(tensors)
    dstack: tt.stack(tensors, axis=-1)
    column_stack: tt.concat([v[:, None], x], axis=1)
    absolute fabs = abs: tt.abs(x)
    sub = subtract: tt.subtract(x, y)
    mul = multiply: tt.multiply(x, y)
    div true_divide = divide: tt.divide(x, y)
    neg = negative: tt.negative(x)
    power = pow: tt.pow(x, 2)
    float_power: tt.pow(x.double(), 2)
    mod = remainder: tt.remainder(x, y)
    fmod: tt.where(x < 0, -tt.remainder(-x, tt.abs(y)), tt.remainder(x, tt.abs(y)))
    divmod: x // y, x % y
    rint around round_ = round: tt.round(x)
    fix = trunc: tt.trunc(x)
    frac: x - tt.trunc(x)
    modf: x - tt.trunc(x), tt.trunc(x)
    arccos = acos: tt.acos(p)
    arccosh = acosh: tt.acosh(v + 1)
    arcsin = asin: tt.asin(p)
    arcsinh = asinh: tt.asinh(v)
    arctan = atan: tt.atan(v)
    arctan2 = atan2: tt.atan2(x, y)
    arctanh = atanh: tt.atanh(p)
    deg2rad radians: x * (tt.pi / 180)
    rad2deg degrees: x * (180 / tt.pi)
    conjugate conj_physical resolve_conj = conj: tt.conj(x)
    angle: tt.atan2(tt.imag(z), tt.real(z))
    eq = equal: tt.equal(x, y)
    ne = not_equal: tt.not_equal(x, y)
    lt = less: tt.less(x, y)
    le = less_equal: tt.less_equal(x, y)
    gt = greater: tt.greater(x, y)
    ge = greater_equal: tt.greater_equal(x, y)
    bitwise_not invert = bitwise_invert: tt.bitwise_invert(i)
    left_shift = bitwise_left_shift: tt.bitwise_left_shift(i, 2)
    right_shift = bitwise_right_shift: tt.bitwise_right_shift(i, 2)
    sgn = sign: tt.sign(x)
    cbrt: tt.sign(x) * tt.abs(x) ** (1 / 3)
    erfc erfinv digamma logit: tt.special.{name}(p)
    lgamma: tt.special.gammaln(p)
    polygamma: tt.special.polygamma(1, p)
    expit: tt.sigmoid(x)
    xlogy: tt.special.xlogy(x, y)
    heaviside: tt.where(x > 0, 1.0, tt.where(x == 0, y, 0.0))
    lerp: x + 0.5 * (y - x)
    addcmul: x + 0.5 * x * y
    addcdiv: x + 0.5 * x / y
    addmm addbmm baddbmm: y + x @ x
    addmv: v + x @ v
    addr: y + tt.linalg.outer(v, v)
    ldexp: x * tt.exp2(i)
    clamp = clip: tt.clip(x, 0, 1)
    clamp_min: tt.clip(x, min=0)
    clamp_max: tt.clip(x, max=1)
    amax = max: tt.max(x, axis=0)
    amin = min: tt.min(x, axis=0)
    aminmax: tt.min(x), tt.max(x)
    ptp: tt.max(x) - tt.min(x)
    product = prod: tt.prod(x)
    cumsum = cumulative_sum: tt.cumulative_sum(x, axis=0)
    cumprod = cumulative_prod: tt.cumulative_prod(x, axis=0)
    average = mean: tt.mean(x, axis=0)
    percentile: tt.quantile(x, 0.9)
    kthvalue: tt.sort(x, axis=-1)[..., n - 1]
    mode: tt.unique_counts(i).values[tt.argmax(tt.unique_counts(i).counts)]
    std_mean: tt.std(x, correction=1), tt.mean(x)
    var_mean: tt.var(x, correction=1), tt.mean(x)
    isposinf: x == tt.inf
    isneginf: x == -tt.inf
    isreal: tt.imag(z) == 0
    isclose: (x == y) | (tt.isfinite(x - y) & (tt.abs(x - y) <= 1e-8 + 1e-5 * tt.abs(y)))
    allclose: bool(tt.all((x == y) | (tt.isfinite(x - y) & (tt.abs(x - y) <= 1e-8 + 1e-5 * tt.abs(y)))))
    array_equal array_equiv: bool(tt.all(x == y))
    dot mm bmm mv chain_matmul = matmul: tt.matmul(x, y)
    vdot = vecdot: tt.vecdot(x, y)
    dist: tt.linalg.vector_norm(x - y)
    cdist: tt.linalg.vector_norm(x[:, None] - y[None], axis=-1)
    norm: tt.linalg.vector_norm(x)
    outer ger: tt.linalg.outer(v, v)
    cross: tt.linalg.cross(v, v)
    ediff1d: tt.diff(tt.reshape(x, (-1,)))
    polyval: 2.0 * x**2 + 1.0 * x + 3.0
    isscalar: isinstance(n, (int, float))
    iscomplex: tt.imag(z) != 0
    scalar_tensor fromiter fromstring = asarray: tt.asarray([1.0, 2.0])
    fromfunction: tt.meshgrid(tt.arange(3), tt.arange(3), indexing="ij")
    fill_diagonal: tt.where(tt.eye(3) == 1, 0.0, x)
    diag_indices: (tt.arange(3), tt.arange(3))
    ix_: (i[:, None], i[None, :])
    block bmat: tt.concat([tt.concat([x, y], axis=1), tt.concat([y, x], axis=1)], axis=0)
    intersect1d: v[tt.isin(v, x)]
    setdiff1d: v[tt.isin(v, x, invert=True)]
    int_ intp longlong = int64: tt.int64
    uint ulong ulonglong uintp = uint64: tt.uint64
    ubyte = uint8: tt.uint8
    issubdtype: tt.isdtype(x.dtype, "real floating")
    errstate seterr: np.errstate(all="raise")
    printoptions get_printoptions: np.printoptions(precision=3)
    savez savez_compressed savetxt: tt.nn.save
    set_rng_state: tt.random.set_state(tt.random.get_state())
    to_dlpack: x.__dlpack__()
    det slogdet trace diagonal: tt.linalg.{name}(x)
    logdet: tt.linalg.slogdet(x)[1]
    inverse: tt.linalg.inv(x)
    diagflat diag_embed: tt.diag(v)
    cholesky: tt.linalg.cholesky(x @ x.T)
    matrix_power: tt.linalg.matrix_power(x, 3)
    lstsq: tt.linalg.pinv(x) @ y
    eig eigh eigvals eigvalsh matrix_rank pinv qr svd svdvals: tt.linalg.{name}(x)
    pinverse: tt.linalg.pinv(x)
    cond: tt.linalg.matrix_norm(x, ord=2) / tt.linalg.matrix_norm(x, ord=-2)
    permute transpose = permute_dims: tt.permute_dims(x, (1, 0))
    swapaxes swapdims: x.transpose(0, 1)
    t adjoint = matrix_transpose: tt.matrix_transpose(x)
    movedim rollaxis = moveaxis: tt.moveaxis(x, 0, -1)
    unsqueeze = expand_dims: tt.expand_dims(x, axis=0)
    atleast_1d atleast_2d atleast_3d: v[None]
    expand = broadcast_to: tt.broadcast_to(v, (3, 3))
    broadcast_tensors = broadcast_arrays: tt.broadcast_arrays(x, v)
    unbind = unstack: tt.unstack(x, axis=0)
    view ravel flatten = reshape: tt.reshape(x, (-1,))
    unflatten = reshape: tt.reshape(x, (3, 3, 1))
    chunk array_split tensor_split vsplit: tt.split(x, 3, axis=0)  # into 3 parts of one length
    hsplit: tt.split(x, 3, axis=1)
    dsplit: tt.split(x, 3, axis=-1)
    fliplr: tt.flip(x, axis=1)
    flipud: tt.flip(x, axis=0)
    rot90: tt.flip(x.T, axis=0)
    repeat_interleave = repeat: tt.repeat(x, 2, axis=0)
    pad: tt.concat([tt.zeros((1, 3)), x], axis=0)  # a row of zeros in front
    append: tt.concat([x, y], axis=0)
    delete: tt.concat([x[:1], x[2:]], axis=0)  # without row 1
    gather take_along_dim = take_along_axis: tt.take_along_axis(x, i[:, None], axis=1)
    index_select = take: tt.take(x, i, axis=0)
    select: x[:, 0]
    narrow: x[:, 0:2]
    masked_select compress extract: x[mask]
    argwhere: tt.stack(tt.nonzero(x), axis=-1)
    flatnonzero: tt.nonzero(tt.reshape(x, (-1,)))[0]
    index_add: x + tt.scatter(y, i, x.shape)
    index_put index_copy index_fill: tt.index_set(x, i, 0.0)
    put place putmask: x[mask] = 0.0
    copyto: x.copy_(y)
    bincount: tt.sum(tt.one_hot(i, 3), axis=0)
    unique = unique_values: tt.unique_values(x)
    union1d: tt.unique_values(tt.concat([v, v]))
    in1d: tt.isin(x, v)
    bucketize digitize = searchsorted: tt.searchsorted(v, x)
    msort = sort: tt.sort(x, axis=0)
    argpartition partition: tt.topk(x, n)  # the largest n, in order, and their places
    cov: (x - x.mean(1, True)) @ (x - x.mean(1, True)).T / (x.shape[1] - 1)
    triu_indices: tt.nonzero(tt.triu(tt.ones((3, 3))))
    tril_indices: tt.nonzero(tt.tril(tt.ones((3, 3))))
    tri: tt.tril(tt.ones((3, 3)))
    numel nelement: x.size
    ndim dim: x.ndim
    shape size: x.shape
    is_tensor: isinstance(x, tt.Tensor)
    is_floating_point: tt.isdtype(x.dtype, "real floating")
    is_complex iscomplexobj: tt.isdtype(x.dtype, "complex floating")
    as_tensor array asanyarray ascontiguousarray asfarray from_numpy frombuffer = asarray: tt.asarray([1.0, 2.0])
    Variable FloatTensor DoubleTensor LongTensor IntTensor BoolTensor ByteTensor HalfTensor: tt.tensor([1.0, 2.0])
    ndarray matrix: tt.Tensor([1.0, 2.0])
    identity: tt.eye(3)
    range: tt.arange(10)
    logspace geomspace: 10 ** tt.linspace(0, 1, 5)
    float single = float32: tt.float32
    double = float64: tt.float64
    half: tt.float16
    long = int64: tt.int64
    int = int32: tt.int32
    short = int16: tt.int16
    byte = uint8: tt.uint8
    char = int8: tt.int8
    cfloat = complex64: tt.complex64
    cdouble = complex128: tt.complex128
    bool_ = bool: tt.bool
    bfloat16: tt.float16  # NumPy has no bfloat16
    dtype: x.dtype
    promote_types = result_type: tt.result_type(tt.float32, tt.float64)
    clone copy: x.clone()
    rand: tt.random.rand(2, 3)
    randn standard_normal: tt.random.randn(2, 3)
    rand_like: tt.random.rand(*x.shape)
    randn_like: tt.random.randn(*x.shape)
    randint randint_like: tt.random.integers(0, 10, (2, 3))
    randperm shuffle: tt.random.permutation(10)
    normal: tt.random.normal((2, 3), mean=0.0, std=1.0)
    uniform: tt.random.uniform((2, 3), low=0.0, high=1.0)
    bernoulli binomial: tt.random.bernoulli(0.5, (2, 3))
    multinomial: tt.random.categorical(tt.log(v), (n,))
    Generator default_rng RandomState: tt.random.Generator(0)
    seed initial_seed: tt.manual_seed(0)
    get_rng_state: tt.random.get_state()
    inference_mode: tt.no_grad()
    autograd: tt.grad(tt.sum(w * w), [w])  # and tt.jacobian, tt.gradcheck, tt.detect_anomaly; Function is tt.op
    func: tt.vmap(tt.sum)(x)  # and tt.vjp, tt.jvp; for functional_call, model.load_state_dict on a copy
    jacrev jacfwd: tt.jacobian(tt.tanh, v)
    get_default_device set_default_device: tt.zeros((2, 3), device="cpu")
    device: tt.zeros((2, 3), device="cpu")
    cuda mps xpu accelerator: "gpu" in tt.__array_namespace_info__().devices()  # no synchronize: reading a number waits
    set_printoptions: np.set_printoptions(precision=3)
    default_generator: tt.random.default_generator
    get_num_interop_threads set_num_interop_threads: tt.set_num_threads(2)
    from_file fromfile loadtxt genfromtxt: tt.asarray(np.loadtxt(file))
    apply_along_axis vectorize frompyfunc: tt.vmap(tt.sum)(x)
    Module Linear Embedding LayerNorm Dropout Sequential Parameter Transformer MultiheadAttention: tt.nn.{name}
    functional optim init amp save load distributed: tt.nn.{name}
    utils: tt.nn.utils  # torch.utils.data is tinytensor.models.data
    Adadelta Adagrad Adam AdamW Adamax Lion Muon NAdam Optimizer RAdam RMSprop SGD: tt.nn.optim.{name}
    relu gelu softmax log_softmax dropout layer_norm linear embedding: tt.nn.functional.{name}
    cross_entropy mse_loss nll_loss scaled_dot_product_attention: tt.nn.functional.{name}
    conv1d conv2d cosine_similarity silu selu celu prelu hardshrink threshold: tt.nn.functional.{name}
    max_pool1d max_pool2d avg_pool1d adaptive_avg_pool1d batch_norm group_norm: tt.nn.functional.{name}
    kl_div cosine_embedding_loss pairwise_distance: tt.nn.functional.{name}
    autocast GradScaler: tt.nn.amp.{name}
    set_autocast_enabled is_autocast_enabled set_autocast_dtype get_autocast_dtype: tt.nn.amp.autocast
    set_anomaly_enabled is_anomaly_check_nan_enabled: tt.detect_anomaly()
    Size: x.shape
    ShortTensor: tt.asarray(x, dtype=tt.int16)
    CharTensor: tt.asarray(x, dtype=tt.int8)
    set_default_tensor_type: tt.set_default_dtype(tt.float32)
    ModuleDict: tt.nn.ModuleDict
    scatter_reduce: tt.put_along_axis(x, i[:, None], 0.0, axis=1)
    get_device: x.device
    OutOfMemoryError: MemoryError
    rms_norm binary_cross_entropy_with_logits: tt.nn.functional.{name}
    gru lstm rnn_relu rnn_tanh: tt.nn.LSTM(4, 3)(tt.zeros((2, 5, 4)))  # and nn.GRU, nn.RNN
    gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell: tt.nn.LSTMCell(4, 3)  # and nn.GRUCell, nn.RNNCell
    fill: tt.full_like(x, 2.0)
    rsub: y - x
    view_as_real: tt.stack([tt.real(z), tt.imag(z)], axis=-1)
    is_nonzero: bool(n)
    is_same_size: x.shape == y.shape
    is_signed: not tt.isdtype(x.dtype, "unsigned integer")
    narrow_copy: x[:, 0:2]
    split_with_sizes: tt.split(x, [1, 2], axis=0)
    masked_scatter: tt.where(mask, y, x)
    frobenius_norm nuclear_norm: tt.linalg.matrix_norm(x)
    use_deterministic_algorithms set_deterministic_debug_mode: tt.manual_seed(0)  # results repeat without a switch
    are_deterministic_algorithms_enabled get_deterministic_debug_mode: tt.manual_seed(0)  # results repeat in any case
    jit backends fx hub multiprocessing profiler quantization sparse distributions
    conv3d conv_transpose1d conv_transpose2d interpolate embedding_bag
    logaddexp2 nanmedian nanquantile histc histogram corrcoef insert
    cholesky_solve cholesky_inverse lu_solve triangular_solve lu matrix_exp expm polyfit interp convolve gradient
    trapezoid trapz cummax cummin renorm stft istft mvlgamma i0 igamma igammac frexp
    gcd lcm combinations cartesian_prod block_diag vander unravel_index ravel_multi_index nditer c_ r_ s_ mgrid ogrid
    lexsort logical_reduce packbits piecewise bartlett hamming hanning kaiser lobpcg sparse_coo_tensor complex polar
    unique_consecutive unfold as_strided dequantize qr_complex geqrf ormqr orgqr searchsorted_ einsum_path
"""

TENSOR = """
    repeat: tt.tile(x, (2, 3)), tt.repeat(x, 2, axis=0)  # PyTorch's x.repeat(2, 3) is the first, NumPy's the second
    split split_with_sizes: tt.split(x, 3, axis=0)  # into 3 parts; PyTorch's split takes the length of a part
    nonzero: tt.nonzero(x), tt.stack(tt.nonzero(x), axis=-1)  # NumPy's x.nonzero() is the first, PyTorch's the second
    equal: x == y, bool(tt.all(x == y))  # PyTorch's x.equal(y) is the second; tt.equal(x, y) is the first
    unique: tt.unique_values(x)  # sorted; unique_counts and unique_inverse give more
    scatter scatter_reduce: tt.put_along_axis(x, i[:, None], 0.0, axis=1)
    scatter_add: tt.scatter_add(x, i[:, None], 1.0, axis=1)
    median: tt.median(x)  # over an axis it gives values alone
    nanquantile nanmedian: tt.quantile(x[~tt.isnan(x)], 0.5)
    svd: tt.linalg.svd(x)  # which gives Vh; PyTorch's x.svd() gives V
    gather: tt.take_along_axis(x, i[:, None], axis=1)
    take_along_dim: tt.take_along_axis(x, i[:, None], axis=1)
    imag: tt.imag(z)
    real: tt.real(z)
    H mH adjoint: tt.conj(x).mT
    bincount: tt.sum(tt.one_hot(i, 3), axis=0)
    cuda: x.to("gpu")
    ipu mtia xpu: x.to("cpu")
    get_device: x.device
    is_cuda: x.device == "gpu"
    is_cpu: x.device == "cpu"
    type: x.to(tt.float64)
    bfloat16: x.half()
    byte: x.to(tt.uint8)
    char: x.to(tt.int8)
    cfloat: x.to(tt.complex64)
    cdouble: x.to(tt.complex128)
    itemsize: x.element_size()
    softmax: tt.nn.functional.softmax(x, dim=-1)
    log_softmax: tt.nn.functional.log_softmax(x, dim=-1)
    relu hardshrink: tt.nn.functional.{name}(x)
    prelu: tt.nn.functional.prelu(x, v)
    select: x[:, 0]
    narrow narrow_copy: x[:, 0:2]
    masked_select: x[mask]
    unflatten: x.reshape(3, 3, 1)
    stride storage_offset: x.numpy().strides
    is_contiguous: x.numpy().flags.c_contiguous
    data_ptr const_data_ptr: x.numpy().ctypes.data
    is_same_size: x.shape == y.shape
    is_signed: tt.isdtype(x.dtype, ("signed integer", "real floating"))
    is_nonzero: bool(tt.any(x))
    storage untyped_storage: x.numpy()
    new_tensor new: tt.tensor([1.0, 2.0], dtype=x.dtype, device=x.device)
    new_empty: tt.empty((2, 3), dtype=x.dtype, device=x.device)
    new_full: tt.full((2, 3), 1.0, dtype=x.dtype, device=x.device)
    new_ones: tt.ones((2, 3), dtype=x.dtype, device=x.device)
    new_zeros: tt.zeros((2, 3), dtype=x.dtype, device=x.device)
    grad_fn: x.is_leaf  # tt.draw(x) draws what x was computed from
    retains_grad register_post_accumulate_grad_hook: x.register_hook
    apply_ map_ map2_: x.copy_(tt.exp(x))
    add_: x += y  # with alpha: x += alpha * y
    sub_ subtract_: x -= y  # with alpha: x -= alpha * y
    mul_ multiply_: x *= y
    div_ divide_ true_divide_: x /= y
    pow_: x **= 2
    remainder_: x %= y
    floor_divide_: x //= y
    clamp_ clip_: x.copy_(tt.clip(x, 0, 1))
    clamp_min_: x.copy_(tt.clip(x, min=0))
    clamp_max_: x.copy_(tt.clip(x, max=1))
    exp_: x.copy_(tt.exp(x))
    sqrt_: x.copy_(tt.sqrt(x))
    neg_ negative_: x *= -1
    masked_fill_ masked_scatter_: x[mask] = 0.0
    index_fill_ index_copy_: x[i] = 0.0
    index_put_ put_: x[i] = 0.0  # with accumulate=True: x += tt.scatter(y, i, x.shape), which adds duplicates up
    index_add_ scatter_add_: x += tt.scatter(y, i, x.shape)
    scatter_ scatter_reduce_: x[i] = y
    fill_diagonal_: x[[0, 1, 2], [0, 1, 2]] = 0.0
    bernoulli_: x.copy_(tt.random.bernoulli(0.5, x.shape))
    random_: x.copy_(tt.random.integers(0, 10, x.shape))
    relu_: x.copy_(tt.nn.functional.relu(x))
    detach_: x = x.detach()
    unsqueeze_: x = x.unsqueeze(0)
    squeeze_: x = x.squeeze()
    t_ transpose_ swapaxes_ swapdims_: x = x.T
    resize_ resize_as_ resize resize_as: x = x.reshape(-1)
    fill: x.fill_(0)
    tobytes dump dumps: x.numpy().tobytes()
    base: x.numpy().base
    flags: x.numpy().flags
    strides: x.numpy().strides
    flat: x.reshape(-1)
"""

NN = """
    Bilinear: tt.einsum("bi,oij,bj->bo", x, tt.ones((2, 3, 3)), y)
    PoissonNLLLoss: tt.mean(tt.exp(x) - y * x)
    GaussianNLLLoss: tt.mean(0.5 * (tt.log(v) + (x - y) ** 2 / v))
    SoftMarginLoss: tt.mean(tt.softplus(-x * y))
    HingeEmbeddingLoss: tt.mean(tt.where(y == 1, x, tt.clip(1 - x, min=0)))
    MarginRankingLoss: tt.mean(tt.clip(-y * (x - v), min=0))
    MultiLabelSoftMarginLoss: nn.BCEWithLogitsLoss()(x, y)  # of logits, without a sigmoid before it
    ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d: F.pad(x, (1, 2))
    ReflectionPad1d ReflectionPad2d ReflectionPad3d: F.pad(x, (1, 2), "reflect")
    ReplicationPad1d ReplicationPad2d ReplicationPad3d: F.pad(x, (1, 2), "replicate")
    CircularPad1d CircularPad2d CircularPad3d: F.pad(x, (1, 2), "circular")
    InstanceNorm1d InstanceNorm2d: nn.GroupNorm(8, 8)  # as many groups as channels
    ParameterDict: nn.Parameter(tt.zeros((2, 3)))  # one attribute each
    Buffer: nn.Module().register_buffer("table", x)
    LazyLinear: nn.Linear(3, 4)
    EmbeddingBag: tt.mean(nn.Embedding(5, 3)(i[:, None]), axis=1)
    NLLLoss2d: nn.NLLLoss()
    Softmax2d: nn.Softmax(dim=1)
    Tensor: tt.Tensor([1.0, 2.0])
    Adam SGD AdamW: nn.optim.Adam(model.parameters())
    DataParallel: nn.parallel.DistributedDataParallel(model)  # a process for each part: mpiexec -n 2 python ...
    Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Fold ChannelShuffle LazyConv1d LazyConv2d LazyConv3d
    LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d BatchNorm3d SyncBatchNorm LazyBatchNorm1d
    LazyBatchNorm2d LazyBatchNorm3d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
    LocalResponseNorm CrossMapLRN2d PixelShuffle PixelUnshuffle Upsample UpsamplingBilinear2d MaxPool3d AvgPool3d
    LPPool1d LPPool2d LPPool3d UpsamplingNearest2d MaxUnpool1d MaxUnpool2d MaxUnpool3d FractionalMaxPool2d
    FractionalMaxPool3d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d RReLU
    Dropout3d AlphaDropout FeatureAlphaDropout CTCLoss AdaptiveLogSoftmaxWithLoss MultiLabelMarginLoss
    MultiMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss LinearCrossEntropyLoss
"""

FUNCTIONAL = """
    relu_: F.relu(x)
    elu_: F.elu(x)
    celu_: F.celu(x)
    selu_: F.selu(x)
    leaky_relu_: F.leaky_relu(x)
    hardtanh_: F.hardtanh(x)
    threshold_: F.threshold(x, 0.5, 0.0)
    bilinear: tt.einsum("bi,oij,bj->bo", x, tt.ones((2, 3, 3)), y)
    poisson_nll_loss: tt.mean(tt.exp(x) - y * x)
    gaussian_nll_loss: tt.mean(0.5 * (tt.log(v) + (x - y) ** 2 / v))
    soft_margin_loss: tt.mean(tt.softplus(-x * y))
    hinge_embedding_loss: tt.mean(tt.where(y == 1, x, tt.clip(1 - x, min=0)))
    margin_ranking_loss: tt.mean(tt.clip(-y * (x - v), min=0))
    multilabel_soft_margin_loss: F.binary_cross_entropy_with_logits(x, y)  # of logits
    gumbel_softmax: F.softmax(x - tt.log(-tt.log(tt.random.rand(*x.shape))), dim=-1)
    pdist: tt.linalg.vector_norm(x[:, None] - x[None], axis=-1)
    embedding_bag: tt.mean(F.embedding(i[:, None], x), axis=1)
    linear_cross_entropy: F.cross_entropy(F.linear(x, y), i)
    logsumexp: tt.logsumexp(x, axis=-1)
    conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d fold instance_norm local_response_norm
    interpolate upsample upsample_bilinear upsample_nearest affine_grid grid_sample pixel_shuffle pixel_unshuffle
    channel_shuffle native_channel_shuffle max_pool3d avg_pool3d lp_pool1d lp_pool2d lp_pool3d
    max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d
    adaptive_avg_pool3d fractional_max_pool2d fractional_max_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices
    adaptive_max_pool3d_with_indices fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices ctc_loss
    multi_margin_loss multilabel_margin_loss rrelu rrelu_ dropout3d alpha_dropout feature_alpha_dropout
    triplet_margin_loss triplet_margin_with_distance_loss grouped_mm scaled_grouped_mm scaled_mm
"""

OPTIM = """
    Adafactor: nn.optim.Adam([w])  # whose memory, which Adafactor saves, is small here
    Rprop: nn.optim.RMSprop([w])  # Rprop's form for batches
    ASGD: nn.optim.swa_utils.AveragedModel(nn.Linear(2, 3))  # averages the weights of any optimiser
    SparseAdam: nn.optim.Adam([w])  # gradients are dense
    LBFGS: nn.optim.Adam([w])  # or scipy.optimize.minimize, with the gradient as jac
"""

SCHEDULERS = """
    _LRScheduler: nn.optim.lr_scheduler.LRScheduler
"""

DATA = """
    ConcatDataset ChainDataset: data.TensorDataset(tt.concat([x, y]))
    StackDataset: data.TensorDataset(x, y)
    IterableDataset: data.DataLoader(list(range(5)))  # of what can only be gone through, a list
    Sampler: data.DataLoader(x, sampler=[2, 0, 1])  # whatever gives indices
    SubsetRandomSampler: data.DataLoader(data.Subset(x, [2, 0]), shuffle=True)
    WeightedRandomSampler: tt.searchsorted(tt.cumulative_sum(v / tt.sum(v)), tt.random.rand(5)).tolist()
    DistributedSampler: data.Subset(x, range(0, 3, 2))  # every second sample
    default_convert: data.default_collate([v, v])
    get_worker_info: data.DataLoader(x)  # makes batches in this thread
"""

LINALG = """
    norm: tt.linalg.vector_norm(x)
    inverse inv_ex: tt.linalg.inv(x)
    cholesky_ex: tt.linalg.cholesky(x @ x.T)
    solve_ex solve_triangular: tt.linalg.solve(x, y)
    tensorsolve tensorinv: tt.reshape(tt.linalg.inv(x), (3, 3))
    dot: tt.matmul(x, y)
    logdet: tt.linalg.slogdet(x)[1]
    lstsq: tt.linalg.pinv(x) @ y
    pinverse: tt.linalg.pinv(x)
    cond: tt.linalg.matrix_norm(x, ord=2) / tt.linalg.matrix_norm(x, ord=-2)
    vander: x[:, :1] ** tt.arange(3)
    lu lu_factor lu_factor_ex lu_solve ldl_factor ldl_factor_ex ldl_solve matrix_exp householder_product
"""

FFT = """
    fft2: tt.fft.fftn(x, axes=(-2, -1))
    ifft2: tt.fft.ifftn(x, axes=(-2, -1))
    rfft2: tt.fft.rfftn(x, axes=(-2, -1))
    irfft2: tt.fft.irfftn(x, axes=(-2, -1))
    hfft2 hfftn: tt.fft.irfftn(tt.conj(x), norm="forward")
    ihfft2 ihfftn: tt.conj(tt.fft.rfftn(x, norm="forward"))
    dct idct
"""

SPECIAL = """
    psi: tt.special.digamma(p)
    loggamma: tt.special.gammaln(p)
    gamma: tt.exp(tt.special.gammaln(p))
    exp2 expm1 log1p round sinc: tt.{name}(x)
    softmax log_softmax: tt.nn.functional.{name}(x, dim=-1)
    entr: -tt.special.xlogy(x, x)
    xlog1py: x * tt.log1p(y)
    ndtr: 0.5 * tt.special.erfc(-x / 2**0.5)
    log_ndtr: tt.log(0.5 * tt.special.erfc(-x / 2**0.5))
    ndtri: 2**0.5 * tt.special.erfinv(2 * p - 1)
    erfcx: tt.exp(x * x) * tt.special.erfc(x)
    zeta: tt.special.polygamma(n - 1, p) / (-1) ** n  # over the factorial of n - 1
"""

RANDOM = """
    standard_normal: tt.random.randn(2, 3)
    random random_sample sample: tt.random.rand(2, 3)
    randint random_integers: tt.random.integers(0, 10, (2, 3))
    seed: tt.manual_seed(0)
    default_rng RandomState: tt.random.Generator(0)
    randperm shuffle: tt.random.permutation(10)
    rand_like: tt.random.rand(*x.shape)
    randn_like: tt.random.randn(*x.shape)
    binomial: tt.random.bernoulli(0.5, (2, 3))
    choice multinomial: tt.random.categorical(tt.log(v), (n,))
    truncated_normal trunc_normal: nn.init.trunc_normal_(x)
    exponential: -tt.log(1 - tt.random.rand(2, 3))
    gumbel: -tt.log(-tt.log(tt.random.rand(2, 3)))
    beta gamma poisson dirichlet laplace logistic lognormal
"""

INIT = """
    normal: nn.init.normal_(w)
    uniform: nn.init.uniform_(w)
    constant: nn.init.constant_(w, 0.0)
    ones: nn.init.ones_(w)
    zeros: nn.init.zeros_(w)
    eye: nn.init.eye_(w)
    xavier_uniform: nn.init.xavier_uniform_(w)
    xavier_normal: nn.init.xavier_normal_(w)
    kaiming_uniform: nn.init.kaiming_uniform_(w)
    kaiming_normal: nn.init.kaiming_normal_(w)
    orthogonal: nn.init.orthogonal_(w)
    sparse_ sparse dirac_ dirac
"""

ARGUMENTS = """
    requires_grad: call requires_grad_() on what it gives
    UPLO: leave it out: of each matrix the lower triangle is read
    hermitian: leave it out: what it gives is the same
    as_tuple: it always gives a tuple
    out_int32: places are int64
    out: what it gives is new; x[...] = result writes into x
    inplace: leave it out: a graph may need what it would write over; write x = F.relu(x)
    size_average reduce: write reduction="mean", "sum" or "none"
    foreach fused capturable: leave it out: the steps are the same, and tt.speed_up() makes them fast
    differentiable: leave it out: no gradient flows through a step; write it with tt.grad(loss, [w], create_graph=True)
    verbose: leave it out, and print(scheduler.get_last_lr())
    enable_nested_tensor mask_check: leave it out: padding is masked, and what it gives is the same
    enable_gqa: repeat keys and values: tt.repeat(key, groups, axis=1)
    add_bias_kv add_zero_attn bias_k bias_v: leave it out: concatenate a key and a value in front of the layer
    embed_dim_to_check: leave it out: it is checked by the weights
    use_separate_proj_weight q_proj_weight k_proj_weight v_proj_weight: concatenate the three into in_proj_weight
    static_k static_v: leave it out: give the projected keys to F.scaled_dot_product_attention
    is_causal: write attn_mask=F.causal_mask(length)
    max_norm norm_type: leave it out: renormalise the rows yourself, under no_grad, before each step
    scale_grad_by_freq: leave it out: divide weight.grad by the counts, from tt.unique_counts(ids)
    sparse: leave it out: gradients are dense, as all arrays are
    _weight: write nn.Embedding.from_pretrained(weight, freeze=False)
    _freeze: write embedding.weight.requires_grad_(False)
    lora_alpha: write alpha
    target_modules: write targets, a regular expression that paths contain
    lora_dropout modules_to_save: leave it out
    beam: write num_beams, as transformers does
    n_best: write num_return_sequences, as transformers does
    input_ids inputs: give the ids first, without the name
    stop_strings: write stop=["..."]
    attention_mask: leave it out: prompts may be lists of different lengths, or padded at their end with -1
    use_cache: leave it out: the keys and values of earlier positions are always kept
    return_dict_in_generate output_scores output_logits: leave it out: models.decoding.beam_search gives ids and scores
    logits_processor stopping_criteria: write repetition_penalty=, no_repeat_ngram_size= or stop=, a function of the ids
    generation_config: write its values as arguments
    min_length: write min_new_tokens, which leaves the prompt out
    forced_bos_token_id: write it as the end of the prompt
    typical_p epsilon_cutoff penalty_alpha: leave it out: top_k, top_p and min_p narrow
    min_value: write min_val
    max_value: write max_val
    _stacklevel: leave it out: dim has a default, without a warning
    pin_memory pin_memory_device: leave out pin_memory: x.to("gpu") copies at once
    timeout worker_init_fn multiprocessing_context: leave it out: batches come from this thread
    prefetch_factor persistent_workers in_order: leave it out: batches come from this thread
    assign: leave it out: values are copied into the parameters that optimisers hold
    destination: leave it out, and write destination.update(module.state_dict())
    remove_duplicate: write module.named_modules(remove_duplicate=False)
    prepend: leave it out, and register the hooks in the order that they run in
    always_call: leave it out: a hook runs where forward succeeds
    epoch: leave it out: a scheduler counts its steps
    memory_format: leave it out: arrays are contiguous
    non_blocking: leave it out: a copy is there when the call returns
    cache_enabled: leave it out: there is no cache of casts
    layout: leave it out: arrays are dense
    chunk_size: leave it out: it is a loop
"""
"""Arguments of PyTorch's and NumPy's that are left out, and what to do about them."""

TABLES = {
    "arguments": ARGUMENTS,
    "tinytensor": PACKAGE,
    "Tensor": TENSOR,
    "tinytensor.nn": NN,
    "tinytensor.nn.functional": FUNCTIONAL,
    "tinytensor.nn.optim": OPTIM,
    "tinytensor.nn.optim.lr_scheduler": SCHEDULERS,
    "tinytensor.nn.init": INIT,
    "tinytensor.models.data": DATA,
    "tinytensor.linalg": LINALG,
    "tinytensor.fft": FFT,
    "tinytensor.special": SPECIAL,
    "tinytensor.random": RANDOM,
}

FALLBACK = {
    "Tensor": ("Tensor", "tinytensor"),
    "tinytensor": ("tinytensor", "tinytensor.nn.functional", "tinytensor.nn"),
}
"""Other places to look for a name: PyTorch has many names in several places."""


@cache
def table(place: str) -> dict[str, tuple[str, str]]:
    """For each name, the name here ("" if there is none) and an example ("" if there is none)."""
    found = {}
    for line in TABLES.get(place, "").strip().splitlines():
        names, _, example = line.partition(": ")
        names, _, ours = names.partition(" = ")
        for name in names.split():
            found[name] = (ours, example.replace("{name}", name))
    return found


def hint(place: str, name: str) -> str | None:
    """The hint for a name that `place` (a module's name, or "Tensor") does not have; None if there is none."""
    known = next((found for where in FALLBACK.get(place, (place,)) if name in (found := table(where))), None)
    if known is not None:
        ours, example = known[name]
        code, _, comment = example.partition("  # ")
        if ours:
            return f"tinytensor names it {ours}, as the array API does: {code}"
        if code:
            return f"tinytensor does without it; write {code}" + (f" ({comment})" if comment else "")
        return "not in tinytensor, which is about attention and the Transformer"
    if place in ("Tensor", "tinytensor") and name.endswith("_") and hasattr(tt.Tensor, name[:-1]):
        return f"in place there are x += y and its kin, x[i] = y, x.copy_(y); write x.copy_(x.{name[:-1]}(...))"
    if place == "tinytensor" and not name.startswith("_") and hasattr(tt.Tensor, name):
        return f"it is a method of Tensors: x.{name}"
    return hint(place, name[:-1]) if place == "tinytensor" and name.endswith("_") else None


# ---- arguments

KEYWORDS = {
    "axis": ("dim",),
    "dim": ("axis", "axes"),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "dims": ("axis", "axes", "repetitions"),
    "keepdim": ("keepdims",),
    "keepdims": ("keepdim",),
    "unbiased": ("correction",),
    "ddof": ("correction",),
    "end": ("stop",),
    "right": ("side",),
    "steps": ("num",),
    "diagonal": ("k", "offset"),
    "size": ("shape",),
    "loc": ("mean",),
    "scale": ("std",),
    "p": ("ord",),
    "exponent": ("other",),
    "mat2": ("other",),
    "vec": ("other",),
    "vec2": ("other",),
    "src": ("other",),
    "index": ("indices",),
    "shifts": ("shift",),
}
"""PyTorch's and NumPy's names of arguments, and their names in one function or another here."""

OF_TWO = {"max": "maximum", "min": "minimum"}


def no_axis(name: str, problem: str) -> TypeError:
    """The error for a value that is no axis; PyTorch's `max` takes a second Tensor there."""
    return TypeError(f"{name}: {problem}" + (f"; of two Tensors it is tt.{OF_TWO[name]}" if name in OF_TWO else ""))


def unknown_keyword(name: str, given: Mapping[str, Any], taken: Sequence[str] | None = None) -> TypeError:
    """The error for arguments that a function does not have; it explains the first.

    Args:
        name: the function's, the method's or the class's.
        given: these arguments; the lengths in `ones(2, 3)` are called "lengths".
        taken: the arguments that it takes, "*" in front of what is given by position alone; default: those in its
            signature.
    """
    keyword, value = next(iter(given.items()))
    if keyword == "lengths":
        return TypeError(f"{name}: got {len(value)} lengths; the shape is one argument: tt.{name}({tuple(value)})")
    if keyword == "more":
        return TypeError(f"{name}: got {len(value)} more than it takes by position; write axis={value[0]!r}")
    taken = _arguments(name) if taken is None else taken
    for ours in KEYWORDS.get(keyword, ()):
        if ours in taken:
            ours = f"write {ours}=" if ours in ("dim", "keepdim") else f"tinytensor names it {ours}"
            return TypeError(
                f"{name}: got {keyword}=; {ours}, as {'PyTorch' if 'write' in ours else 'the array API'} does"
            )
    for given_as in (keyword, *KEYWORDS.get(keyword, ())):
        if f"*{given_as}" in taken:
            return TypeError(f"{name}: got {keyword}=; give it by position, without the name")
    advice = table("arguments").get(keyword, ("", f"it takes {', '.join(taken) or 'no arguments'}"))[1]
    return TypeError(f"{name}: got {keyword}=; {advice}")


def _arguments(name: str) -> list[str]:
    """The arguments of the function or method of this name."""
    places = (tt, tt.linalg, tt.fft, tt.special, tt.random, tt.Tensor)
    function = next(getattr(place, name) for place in places if hasattr(place, name))
    return [
        name for name in inspect.signature(function).parameters if name not in ("self", "unknown", "lengths", "more")
    ]


def explain_call(function: Any, args: Sequence[Any], error: TypeError) -> None:
    """Give an error of Python's about the arguments of a call our words; leave one about missing arguments alone."""
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "unknown", "called")
    ]
    name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    if found := re.search(r"got an unexpected keyword argument '(\w+)'", str(error)):
        taken = ["*" * (p.kind == p.VAR_POSITIONAL) + p.name for p in parameters]
        error.args = unknown_keyword(name, {found[1]: None}, taken).args
    elif ("positional argument" in str(error) and " were given" in str(error)) or " was given" in str(error):
        by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        by_name = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY]
        surplus = args[len(by_position) + (function.__code__.co_varnames[:1] == ("self",)) :]
        text = f"{name}: got {len(surplus)} more than it takes by position ({', '.join(by_position) or 'nothing'})"
        if by_name:
            text += f"; write {by_name[0]}={describe(surplus[0])}" if surplus else ""
        elif name == "step" or any(isinstance(each, bool) for each in surplus):
            theirs = "epoch" if name == "step" else "inplace"
            text += f"; PyTorch's is {theirs}: {table('arguments')[theirs][1]}"
        error.args = (text,)


def wrong_setting(owner: str, name: str, value: Any, kind: Any) -> Exception:
    """The error for a value that a setting's annotation does not take."""
    words = _in_words(kind)
    met = value if isinstance(value, (list, tuple)) else [value]
    are_numbers = "number" in words and all(isinstance(each, (int, float, np.number)) for each in met)
    is_infinite = are_numbers and not all(map(math.isfinite, met))
    text = f"{owner}: {name} must be {words.replace('number', 'finite number') if is_infinite else words}"
    text += f", got {describe(value)} ({type(value).__name__})"
    if any(isinstance(each, str) for each in met):
        what = "int(...)" if "integer" in words else "float(...)" if "number" in words else "== 'true'"
        text += f"; a text, as YAML or a command line gives it, needs {what}"
    return (ValueError if is_infinite or (are_numbers and met is value) else TypeError)(text)


def _in_words(kind: Any) -> str:
    """An annotation in words."""
    within, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        return "a number"
    if origin in (Union, UnionType):
        *most, last = map(_in_words, within)
        return f"{', '.join(most)} or {last}"
    if origin is tuple and ... not in within:
        same = len({*within}) == 1 and len(within) in NUMERALS
        return f"{NUMERALS[len(within)]} {PLURALS[within[0]]}" if same else f"({', '.join(map(_in_words, within))})"
    if origin is not None and within:
        return PLURALS.get(within[0], "a list")
    return KINDS.get(kind, f"a {getattr(kind, '__name__', kind)}")


KINDS = {int: "an integer", float: "a number", bool: "True or False", type(None): "None", str: "a text"}
PLURALS = {int: "integers", float: "numbers", bool: "truth values"}
NUMERALS = {2: "two", 3: "three"}


def passed_to_op(primitive: Primitive, message: str) -> str | None:
    """The words, in place of Python's, for an argument that an op does not have; None for any other message."""
    found = re.match(r"(\w+): _?\1_?\(\) got an unexpected keyword argument '(\w+)'", message)
    if found is None:
        return None
    taken = [*primitive.inputs, *primitive.params]
    return f"{unknown_keyword(primitive.name, {found[2]: None}, taken)}{message[found.end() :]}"
