"""Functions and methods whose names, arguments or meanings are PyTorch's own."""

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(9)


def show(*values):
    for v in values:
        if isinstance(v, torch.Tensor):
            print(list(v.shape), v.detach().double().reshape(-1).numpy().round(5).tolist() if v.numel() else "none")
        elif isinstance(v, (tuple, list)):
            show(*v)
        else:
            print(v)


x = torch.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
y = torch.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
i = torch.tensor([[0, 2], [1, 1], [2, 0]])
b = torch.from_numpy(rng.standard_normal((2, 3, 4)).astype(np.float32))
print(x.shape, x.size(), x.shape.numel())
show(x.size(), x.size(0), x.size(-1), x.size(dim=1), x.numel(), x.dim(), x.ndimension(), x.nelement(), len(x.size()))
show(torch.max(x), torch.max(x, 1), torch.max(x, dim=0, keepdim=True), torch.max(x, y), x.max(-1)[1], x.min(0).values)
show(
    x.sort(), x.sort(dim=0, descending=True).indices, torch.sort(x, 1)[0], x.topk(2, dim=1, largest=False), x.argsort(0)
)
show(x.median(), x.median(1), x.median(dim=0).values, i.mode(0).values, torch.mode(i, 1)[0], x.kthvalue(2, 1))
show(x.std(), x.std(-1), x.std(0, keepdim=True), x.var(1, unbiased=False), torch.var(x, dim=0), torch.std(x, 1, False))
show(x.std(axis=1, keepdims=True), x.max(axis=0).values, torch.sum(x, axis=1, keepdims=True), x.argmax(axis=1))
show(x.split(3, dim=1), x.split([1, 3], 1), torch.chunk(x, 3, dim=1), x.chunk(2), x.unbind(1), torch.tensor_split(x, 2))
show(x.repeat(2, 1), x.repeat(2, 1, 1), torch.repeat_interleave(x, 2, dim=0), x.repeat_interleave(2), x.tile(1, 2))
show(
    x.gather(1, i),
    torch.gather(x, dim=0, index=i),
    x.scatter(1, i, 1.5),
    x.scatter_add(0, i, y),
    x.index_select(1, i[0]),
)
z = x.clone()
z.scatter_(1, i, 9.0)
z.index_add_(0, torch.tensor([0, 2]), y[:2])
z.masked_fill_(z > 8, -1).clamp_(min=-0.5).mul_(2).add_(1, alpha=3).sub_(y).div_(2).abs_().sqrt_()
z[0].zero_()
show(z, z.masked_select(z > 1), torch.nonzero(z > 1), (z > 1).nonzero(as_tuple=True), torch.where(z > 1)[0])
show(
    torch.where(x > 0, x, torch.zeros_like(x)),
    torch.where(x > 0, 1.0, 0.0),
    torch.equal(x, y),
    torch.allclose(x, x + 1e-9),
)
show(x.sum(dim=1), x.sum(1, keepdim=True), x.mean(dim=(0, 1)), x.prod(dim=0), x.cumsum(dim=1), torch.cumprod(x, dim=0))
show(
    x.any(dim=1),
    (x > 0).all(dim=0),
    x.argmax(dim=1, keepdim=True),
    torch.argmin(x, dim=0),
    x.logsumexp(dim=1),
    x.norm(),
)
show(torch.norm(x, dim=1), x.norm(p=1, dim=0, keepdim=True), torch.linalg.norm(x), torch.linalg.vector_norm(x, dim=1))
show(x.softmax(dim=1), torch.softmax(x, dim=0), x.log_softmax(-1), x.relu(), torch.relu(x), x.sigmoid(), F.gelu(x))
show(
    torch.cat([x, y], dim=1), torch.cat((x, y)), torch.stack([x, y], dim=-1), torch.hstack([x, y]), torch.vstack([x, y])
)
show(
    torch.bmm(b, b.transpose(1, 2)),
    torch.mm(x, y.t()),
    x @ y.T,
    torch.dot(x[0], y[0]),
    torch.mv(x, y[0]),
    torch.outer(x[0], y[0]),
)
show(torch.einsum("ij,kj->ik", x, y), torch.einsum("bij,bkj->bik", [b, b]), torch.tensordot(x, y, dims=([1], [1])))
show(torch.addmm(torch.ones(3), x, y.t(), beta=2, alpha=0.5), torch.baddbmm(b @ b.mT, b, b.mT), torch.lerp(x, y, 0.3))
show(
    torch.tril(x, diagonal=-1),
    x.triu(1),
    torch.diag(x[0], diagonal=1),
    x.diagonal(),
    torch.trace(x[:, :3]),
    torch.eye(2, 3),
)
show(
    torch.flatten(b, 1),
    torch.flatten(b, start_dim=0, end_dim=1),
    b.flatten(1),
    x.unflatten(1, (2, 2)),
    x.squeeze(0),
    x[:, :1].squeeze(1),
)
show(
    b.permute(2, 0, 1),
    torch.permute(b, (1, 0, 2)),
    torch.transpose(b, 0, 2),
    b.transpose(dim0=1, dim1=2),
    b.movedim(0, -1),
)
show(
    x.flip(0),
    torch.flip(x, dims=[1]),
    torch.flip(x, [0, 1]),
    torch.roll(x, shifts=1, dims=1),
    x.roll(1, 0),
    x.unfold(1, 2, 1),
)
show(
    x.expand(2, 3, 4),
    x[:1].expand(3, -1),
    x.expand_as(b),
    x.view(-1),
    x.view(2, 6),
    x.reshape((4, 3)),
    x.view(x.size(0), -1),
)
show(
    x.narrow(1, 1, 2),
    x.select(0, 1),
    x.unsqueeze(-1).shape,
    torch.unsqueeze(x, dim=0).shape,
    torch.squeeze(x.unsqueeze(1), dim=1),
)
show(
    torch.clamp(x, min=0),
    x.clamp(-0.5, 0.5),
    torch.abs(x),
    x.pow(2),
    torch.pow(x, 2),
    x.round(),
    x.exp().log1p(),
    torch.rsqrt(x.abs()),
)
show(
    torch.zeros(2, 3),
    torch.ones((2, 3)),
    torch.zeros(2),
    torch.full((2, 2), 3.5),
    torch.arange(3),
    torch.arange(1, 2.5, 0.5),
    torch.empty(0),
)
show(
    torch.linspace(0, 1, steps=5),
    torch.zeros(size=(2, 2)),
    x.new_zeros(2, 2),
    x.new_ones((2,)),
    x.new_full((2,), 3),
    x.new_tensor([1, 2]),
)
show(
    torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
    torch.tril_indices(3, 3),
    torch.triu_indices(2, 3, offset=1),
)
show(
    x.long(),
    x.int(),
    x.type(torch.LongTensor),
    x.type(torch.float64),
    x.double().type(),
    x.to(torch.float64),
    x.half().float(),
    x.bool(),
)
show(
    torch.FloatTensor([1, 2]),
    torch.LongTensor([[1], [2]]),
    torch.Tensor([1, 2]),
    torch.Tensor(2, 3).shape,
    torch.FloatTensor(2, 1).shape,
)
show(
    torch.unique(i),
    torch.unique(i, return_counts=True),
    i.unique(return_inverse=True),
    torch.bincount(i.view(-1), minlength=5),
)
show(
    torch.isnan(x / 0 * 0),
    torch.isinf(x / 0),
    torch.isfinite(x),
    torch.sign(x),
    x.ne(y),
    x.eq(x),
    x.ge(0),
    torch.logical_not(x > 0),
    x.fmod(1),
)
show(
    torch.randn(2, 3).shape,
    torch.rand((4,)).shape,
    torch.randint(0, 5, (2, 3)).shape,
    torch.randint(5, (2,)).dtype == torch.int64,
)
show(
    sorted(torch.randperm(5).tolist()),
    torch.randn_like(x).shape,
    torch.rand_like(x).shape,
    torch.randint(low=0, high=2, size=(3,)).shape,
)
show(
    torch.normal(0.0, 1.0, size=(2, 2)).shape,
    torch.bernoulli(torch.ones(3)),
    torch.multinomial(torch.tensor([[0, 1.0], [1, 0]]), 1),
)
show(
    F.one_hot(i, num_classes=3),
    F.normalize(x, dim=1),
    F.cosine_similarity(x, y, dim=1),
    F.pad(x, (1, 1)),
    F.softmax(x, 1),
    F.softplus(x),
)
show(
    torch.cdist(x, y),
    torch.std_mean(x, dim=1),
    torch.quantile(x, 0.5, dim=1),
    torch.count_nonzero(x > 0),
    torch.floor_divide(i, 2),
    torch.diff(x),
)
show(
    isinstance(x, torch.Tensor),
    torch.is_tensor(x),
    isinstance(x, torch.FloatTensor),
    x.is_floating_point(),
    x.is_cuda,
    str(x.device),
    x.device.type,
)
w = torch.tensor([1.0, 2.0], requires_grad=True)
(g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
show(g, torch.autograd.grad(g.sum(), [w])[0], w.grad is None, w.is_leaf)
with torch.set_grad_enabled(False):
    show((w * 2).requires_grad)
torch.set_grad_enabled(False)
show((w * 2).requires_grad)
torch.set_grad_enabled(True)


@torch.inference_mode()
def f(v):
    return (v * 2).requires_grad


show(f(w), (w * 2).requires_grad, torch.is_grad_enabled())
h = (w * 3).detach_() if False else (w * 3).detach()
show(
    h.requires_grad,
    torch.tensor(3.0).item(),
    torch.tensor([[1, 2], [3, 4]]).tolist(),
    torch.as_tensor(np.ones(2)).dtype == torch.double,
)
w.data.zero_()
w.data[0] = 5
w.data = w.data + 1
show(w)
