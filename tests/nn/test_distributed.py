"""Processes that compute together, as one that is alone sees them; tests/distributed has several."""

import gc
import importlib.util
import sys
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.nn import distributed as dist
from tinytensor.nn.distributed.launch import launched
from tinytensor.nn.parallel.buckets import assigned
from tinytensor.nn.parallel.data_parallel import Views


@pytest.fixture(autouse=True)
def no_group(monkeypatch):
    for name in ("PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    dist.destroy_process_group()
    yield
    dist.destroy_process_group()


class TwinGroup(dist.Communicator):
    """Two ranks of which the other always does what this one does."""

    size = 2

    def __init__(self):
        self.sent = []

    def all_reduce(self, array):
        self.sent.append(array.size)
        array *= 2
        return dist.Pending()

    def gather_objects(self, value):
        return [value, value]


def model_of(device="cpu", dtype=tt.float64):
    tt.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4, dtype=dtype), nn.Tanh(), nn.Linear(4, 2, dtype=dtype)).to(device)


def loss_of(model, device="cpu", dtype=tt.float64):
    x = tt.asarray(np.random.default_rng(0).normal(size=(5, 3)), device=device, dtype=dtype)
    return tt.sum(model(x) ** 2)


# ---- alone


def test_a_process_that_is_alone():
    assert not dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    group = dist.init_process_group(timeout=timedelta(seconds=3))
    assert dist.is_initialized()
    assert dist.world() is group
    x = tt.asarray([1.0, 2.0])
    dist.all_reduce(x)
    dist.broadcast(x)
    dist.barrier()
    assert x.tolist() == [1.0, 2.0]
    assert group.gather_objects("a") == ["a"]
    assert group.broadcast_object("a") == "a"
    assert "mpi4py" not in sys.modules
    with pytest.raises(RuntimeError, match="destroy_process_group"):
        dist.init_process_group()


def test_another_backend():
    with pytest.raises(ValueError, match='"mpi" or "nccl"'):
        dist.init_process_group("gloo")
    assert not dist.is_initialized()


def test_a_launcher_is_known_by_what_it_sets(monkeypatch):
    assert launched() is None
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    assert launched() is None
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert launched() == (2, 4)
    assert str(launched()) == "rank 2 of 4"


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is not None, reason="mpi4py is installed")
def test_without_mpi4py(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ImportError, match=r"pip install .*\[distributed\]"):
        dist.init_process_group()


# ---- DistributedDataParallel


@pytest.mark.parametrize("group", [None, TwinGroup()])
def test_gradients_are_those_without_it(device, group):
    plain, model = model_of(device), model_of(device)
    ddp = nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=1e-4)
    for _ in range(2):
        loss_of(plain, device).backward()
        loss_of(ddp, device).backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            np.testing.assert_allclose(p.grad.cpu().numpy(), q.grad.cpu().numpy(), rtol=1e-13)


def test_keys_begin_with_module_as_pytorchs():
    model = model_of()
    ddp = nn.parallel.DistributedDataParallel(model)
    assert list(ddp.state_dict()) == [f"module.{name}" for name in model.state_dict()]
    assert [name for name, _ in ddp.named_parameters()] == [f"module.{name}" for name, _ in model.named_parameters()]
    ddp.load_state_dict(ddp.state_dict())
    assert ddp.module is model


def test_nothing_is_sent_without_gradients_nor_within_no_sync():
    group = TwinGroup()
    model = model_of()
    ddp = nn.parallel.DistributedDataParallel(model, process_group=group)
    with tt.no_grad():
        ddp(tt.ones((1, 3), dtype=tt.float64))
    with ddp.no_sync():
        loss_of(ddp).backward()
    loss_of(model).backward()
    assert group.sent == []
    loss_of(ddp).backward()
    assert group.sent == [sum(p.size for p in model.parameters())]


def test_a_second_pass_through_a_kept_graph_sends_again():
    group = TwinGroup()
    model = model_of()
    loss = loss_of(nn.parallel.DistributedDataParallel(model, process_group=group))
    loss.backward(retain_graph=True)
    once = [p.grad.numpy().copy() for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), once):
        np.testing.assert_allclose(p.grad.numpy(), 2 * g, rtol=1e-13)
    assert len(group.sent) == 2


def test_buckets_have_a_kind_and_a_size():
    parameters = [tt.zeros(n, dtype=dtype) for n, dtype in ((50, tt.float64), (300, tt.float32), (100, tt.float32))]
    assert assigned(parameters, range(3), 25.0) == [[0], [1, 2]]
    assert assigned(parameters, range(3), 1.2e-3) == [[0], [1], [2]]
    assert assigned(parameters, [2, 1, 0], 1e-9) == [[2], [1], [0]]
    assert assigned([tt.zeros(200_000) for _ in range(3)], range(3), 25.0) == [[0], [1, 2]]  # the first begins early


def test_from_the_second_pass_on_buckets_are_in_the_order_in_which_gradients_arrive():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(4, 2, dtype=tt.float64), nn.Linear(3, 4, dtype=tt.float64)

        def forward(self, x):
            return self.last(self.first(x))

    group = TwinGroup()
    ddp = nn.parallel.DistributedDataParallel(Backwards(), process_group=group, bucket_cap_mb=1e-9)
    for _ in range(2):
        loss_of(ddp).backward()
    assert group.sent == [4, 12, 2, 8, 2, 8, 4, 12]


def test_nothing_is_left_for_the_garbage_collector():
    model = model_of()
    ddp = nn.parallel.DistributedDataParallel(model)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            loss_of(ddp).backward()
            loss_of(ddp)  # never taken back
            F.relu(nn.utils.checkpoint(ddp, tt.ones((1, 3), dtype=tt.float64))).sum().backward()
        assert not [thing for thing in gc.get_objects() if type(thing) is Views]
    finally:
        gc.enable()


def test_asking_a_parameter_for_its_dtype_first_delays_nothing():
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of()

        def forward(self, x):
            assert x.dtype == self.inner[2].weight.dtype
            return self.inner(x)

    group = TwinGroup()
    ddp = nn.parallel.DistributedDataParallel(Asks(), process_group=group, bucket_cap_mb=1e-9)
    loss_of(ddp).backward()
    assert group.sent == [2, 8, 4, 12]


def test_a_backward_pass_that_failed_leaves_nothing():
    model = model_of()
    ddp = nn.parallel.DistributedDataParallel(model)
    x = tt.ones((1, 3), dtype=tt.float64, device="cpu").requires_grad_()

    def fail(gradient):
        raise ValueError("no")

    middle = model[0].register_forward_hook(lambda module, args, out: out.register_hook(fail) and None)
    with pytest.raises(ValueError, match="no"):
        ddp(x).sum().backward()
    middle.remove()
    plain = model_of()
    model.zero_grad()
    loss_of(ddp).backward()
    loss_of(plain).backward()
    for p, q in zip(model.parameters(), plain.parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-13)


def test_a_module_without_parameters():
    with pytest.raises(RuntimeError, match="no parameter"):
        nn.parallel.DistributedDataParallel(nn.Tanh())


def test_recomputation_within_it():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of()

        def forward(self, x):
            return nn.utils.checkpoint(self.inner, x)

    model, plain = Recomputed(), model_of()
    loss_of(nn.parallel.DistributedDataParallel(model)).backward()
    loss_of(plain).backward()
    for p, q in zip(model.parameters(), plain.parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-13)


# ---- ZeRO


def test_alone_zero_is_the_other_optimiser(device):
    plain, model = model_of(device, tt.float32), model_of(device, tt.float32)
    wanted = nn.optim.Adam(plain.parameters(), lr=0.1)
    shared = nn.optim.ZeroRedundancyOptimizer(model.parameters(), nn.optim.Adam, lr=0.1)
    for _ in range(3):
        for m, optimizer in ((plain, wanted), (model, shared)):
            optimizer.zero_grad()
            assert optimizer.step(lambda m=m: backward(m, device)) > 0
    for p, q in zip(model.parameters(), plain.parameters()):
        assert p.cpu().numpy().tobytes() == q.cpu().numpy().tobytes()
    assert shared.state_dict().keys() == wanted.state_dict().keys()
    shared.load_state_dict(wanted.state_dict())
    shared.add_param_group({"params": [tt.zeros(3, device=device).requires_grad_()], "lr": 1.0})
    assert shared.param_groups[1]["lr"] == 1.0
    assert shared.defaults["lr"] == 0.1


def backward(model, device):
    loss = loss_of(model, device, tt.float32)
    loss.backward()
    return loss.item()


def test_each_parameter_has_one_owner_and_the_owners_as_much_to_do():
    shapes = [(3,), (8, 8), (8, 4), (30,), (4,)]
    parameters = [tt.zeros(shape).requires_grad_() for shape in shapes]
    optimizer = nn.optim.ZeroRedundancyOptimizer(parameters, nn.optim.SGD, TwinGroup(), lr=0.1)
    owners = optimizer.owners()
    loads = [sum(p.size for p in parameters if owners[p] == rank) for rank in (0, 1)]
    assert loads == [67, 66]


# ---- NCCL, by a stand-in for CuPy's interface


@pytest.fixture
def fake_nccl(monkeypatch):
    """What was asked of NCCL, with the names of CuPy's arguments."""
    calls = []

    class NcclCommunicator:
        def __init__(self, ndev, commId, rank):
            calls.append(("init", ndev, commId, rank))

        def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
            calls.append(("allReduce", sendbuf == recvbuf, count, datatype, op, stream))

        def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
            calls.append(("broadcast", sendbuff == recvbuff, count, datatype, root, stream))

    class Stream:
        def __init__(self, name="new", non_blocking=False):
            self.ptr = name

        def record(self):
            return f"event of {self.ptr}"

        def wait_event(self, event):
            calls.append((self.ptr, "waits for", event))

        def synchronize(self):
            calls.append((self.ptr, "synchronize"))

    nccl = SimpleNamespace(
        get_unique_id=lambda: (1, 2), NcclCommunicator=NcclCommunicator, NCCL_SUM="sum", NCCL_UINT8="uint8",
        NCCL_FLOAT16="half", NCCL_FLOAT32="float", NCCL_FLOAT64="double", NCCL_INT8="int8", NCCL_INT32="int32",
        NCCL_UINT32="uint32", NCCL_INT64="int64", NCCL_UINT64="uint64", available=True,
    )  # fmt: skip
    cuda = SimpleNamespace(
        nccl=nccl, Stream=Stream, Device=lambda number: SimpleNamespace(use=lambda: calls.append(("use", number))),
        get_current_stream=lambda: Stream("current"), runtime=SimpleNamespace(getDeviceCount=lambda: 1),
    )  # fmt: skip

    class Array:
        dtype, size, nbytes, data = np.dtype(np.float32), 6, 24, SimpleNamespace(ptr=99)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, ndarray=Array))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return calls, Array()


def test_nccl_sends_what_is_on_a_gpu_and_mpi_the_rest(fake_nccl):
    from tinytensor.nn.distributed.nccl import NCCLCommunicator

    calls, array = fake_nccl
    others = TwinGroup()
    others.size, others.gather_objects = 1, lambda value: [value]
    group = NCCLCommunicator(others)
    assert calls == [("use", 0), ("init", 1, (1, 2), 0)]
    calls.clear()
    pending = group.all_reduce(array)
    assert calls == [("new", "waits for", "event of current"), ("allReduce", True, 6, "float", "sum", "new")]
    calls.clear()
    pending.wait()
    group.broadcast(array)
    assert calls == [
        ("current", "waits for", "event of new"),
        ("new", "waits for", "event of current"), ("broadcast", True, 24, "uint8", 0, "new"),
        ("current", "waits for", "event of new"),
    ]  # fmt: skip
    calls.clear()
    array.dtype = np.dtype(np.int64)
    group.all_reduce(array)
    assert calls[1][3] == "int64"
    array.dtype = np.dtype(np.complex64)
    with pytest.raises(TypeError, match="all_reduce: NCCL adds int8, .*, float64, got an array of complex64"):
        group.all_reduce(array)
    group.all_reduce(np.ones(3)).wait()
    group.broadcast(np.ones(3))
    group.poke()
    group.barrier()
    assert others.sent == [3]
    assert group.broadcast_object("a") == "a"


def test_nccl_is_missing(fake_nccl):
    from tinytensor.nn.distributed.nccl import NCCLCommunicator

    sys.modules["cupy.cuda"].nccl.available = False
    with pytest.raises(ImportError, match="NCCL cannot be loaded; run: pip install nvidia-nccl-cu12"):
        NCCLCommunicator(TwinGroup())


def test_more_ranks_than_gpus(fake_nccl):
    from tinytensor.nn.distributed.nccl import NCCLCommunicator

    others = TwinGroup()
    others.rank = 1
    with pytest.raises(RuntimeError, match="rank 1 is number 1 on its machine, which has 1 GPUs"):
        NCCLCommunicator(others)


def test_cross_entropy_of_no_rows_is_0():
    """A rank without a sequence of a small batch adds nothing."""
    logits = tt.zeros((0, 5)).requires_grad_()
    loss = F.cross_entropy(logits, tt.zeros((0,), dtype=tt.int64))
    loss.backward()
    assert loss.item() == 0
