"""The time of beam search: cached against recomputed, and ours against PyTorch, as ratios from one interleaved run.

    python benchmarks/decoding.py [--sentences 1000] [--beam 5] [--batch 256] [--rounds 3] [--json FILE]
    python benchmarks/decoding.py --model FOLDER --source FILE ...
    python benchmarks/decoding.py --against FOLDER ...    # another checkout of tinytensor in PyTorch's place

A Transformer decodes sentences in float32, sorted by length, in batches: the one that train_translation.py left in the
folder, on the lines of a text file; or one with d_model 128, 4 + 4 layers, 4 heads, feed-forward 256, 10,000 ids and
random weights, on random ids with the lengths of image captions. Random hypotheses do not end: each gets a few more ids
than its source has.

    cached      beam_search(model, ...)
    recomputed  beam_search(Recomputed(model), ...): each step computes every hypothesis from its start
    torch       the same weights, cache and search in PyTorch
    floor       for random weights: only the products of the linear maps, by NumPy, with the same number of rows
    other       the cached search of another checkout

Each side runs in a process of its own. All decode a batch in turn, then the next; a round is all batches. The ratio
(below 1: cached is faster) is the median over rounds. The best hypotheses of all sides are compared: nearly all are the
same, with the same scores.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout, module
from command_line import Parser, count, refuse, require_torch, script, some_of, write_json
from interleaved import Side, print_blas, ratio

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY = 10_000
SIZES = {"d_model": 128, "num_heads": 4, "num_layers": 4, "d_ff": 256, "dropout": 0.0, "max_length": 256}
PAD, BOS, EOS = 0, 1, 2
SIDES = ("cached", "recomputed", "torch", "floor")
LIMITS = {"random": (1.0, 2), "trained": (1.2, 50)}  # ids of a hypothesis: for each id of the source, and extra
APART = 1e-3  # the largest difference of the best scores of two sides that say the same
AGREE = 0.99  # least share of equal sentences: rounding may drop another beginning from a beam


def random_sources(number: int) -> list[list[int]]:
    """The ids of random sentences, each ending in eos."""
    import numpy as np

    rng = np.random.default_rng(0)
    lengths = np.clip(rng.normal(14, 4.5, number).round(), 5, 40).astype(int)
    return [[*rng.integers(3, VOCABULARY, length).tolist(), EOS] for length in lengths]


def sources(folder: Path, path: Path, number: int) -> list[list[int]]:
    """The ids of the lines of a text, from the translator in a folder, each ending in eos.

    Raises ValueError if the model is not a Transformer or cannot take a line, or if there is no text.
    """
    models = Checkout(ROOT).models
    from tinytensor.models.data.corpus import CorpusError, read_lines

    translator = models.Translator.from_pretrained(folder)
    if not isinstance(translator.model, models.Transformer):
        raise ValueError(f"--model {folder}: expected a Transformer, got a {type(translator.model).__name__}")
    try:
        lines = read_lines(path)
    except CorpusError as error:
        raise ValueError(f"--source: {error}") from None
    found = [[*translator.codec.encode(line), EOS] for line in lines[:number] if line]
    if not found:
        raise ValueError(f"--source {path}: there is no line in it")
    longest = max(map(len, found))
    if longest > translator.model.max_length:
        raise ValueError(f"--source {path}: {longest} ids, but the model takes at most {translator.model.max_length}")
    return found


def batches(sentences: list[list[int]], size: int) -> list:
    """Padded ids of sentences of similar lengths."""
    import numpy as np

    rows = sorted(sentences, key=len)
    found = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        padded = np.full((len(part), len(part[-1])), PAD, dtype=np.int64)
        for row, ids in zip(padded, part):
            row[: len(ids)] = ids
        found.append(padded)
    return found


# ---- the sides: functions from a source (sentences, length) and a beam to the best ids and score of each sentence

Made = tuple[dict[str, Any], dict[str, Any]]  # the sizes of a model and its weights


def ours(checkout: Checkout, folder: Path | None, made: Made | None, recomputed: bool) -> tuple[Callable, Made]:
    tt, Transformer, decoding = checkout.tt, checkout.models.Transformer, module("models.decoding")
    tt.manual_seed(0)
    model = Transformer(VOCABULARY, **SIZES) if folder is None else Transformer.from_pretrained(folder)
    if made is not None:
        model.load_state_dict({name: tt.asarray(value) for name, value in made[1].items()})
    state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    decoded = decoding.Recomputed(model) if recomputed else model
    limit = LIMITS["random" if folder is None else "trained"]

    def decode(source, beam: int) -> list[tuple[list[int], float]]:
        found = decoding.beam_search(decoded, source, beam=beam, max_length=limit)
        return [(best.ids, best.score) for best, *_ in found]

    return decode, (model.config, state)


def theirs(folder: Path | None, config: dict, state: dict) -> Callable:
    import torch
    from torch.nn import functional as F

    weights = {name: torch.tensor(value) for name, value in state.items()}
    d_model, heads, layers = config["d_model"], config["num_heads"], config["num_layers"]
    vocabulary = len(weights["projection.weight"])
    encoding = torch.tensor(Checkout(ROOT).nn.sinusoidal_encoding(config["max_length"], d_model).numpy())
    limit = LIMITS["random" if folder is None else "trained"]

    def linear(x, name: str):
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(x, name: str):
        return F.layer_norm(x, (d_model,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def project(x, name: str, first: int, last: int):
        """Parts first to last of Q, K, V: (batch, heads, length, head_dim) each."""
        rows = slice(first * d_model, last * d_model)
        projected = F.linear(x, weights[f"{name}.in_proj_weight"][rows], weights[f"{name}.in_proj_bias"][rows])
        parts = projected.view(*x.shape[:2], last - first, heads, d_model // heads)
        return parts.permute(2, 0, 3, 1, 4)

    def attend(name: str, query, key, value, mask):
        attended = F.scaled_dot_product_attention(query, key, value, mask)
        return linear(attended.transpose(1, 2).flatten(2), f"{name}.out_proj")

    def feed_forward(x, name: str):
        return linear(F.relu(linear(x, f"{name}.linear1")), f"{name}.linear2")

    def encode(source):
        x = F.embedding(source, weights["source_embedding.weight"]) * math.sqrt(d_model) + encoding[: source.shape[1]]
        mask = (source != PAD)[:, None, None]
        for i in range(layers):
            layer = f"transformer.encoder.layers.{i}"
            x = norm(x + attend(f"{layer}.self_attn", *project(x, f"{layer}.self_attn", 0, 3), mask), f"{layer}.norm1")
            x = norm(x + feed_forward(x, layer), f"{layer}.norm2")
        return norm(x, "transformer.encoder.norm"), mask

    def step(x, caches, memory, visible, memory_mask, places: int):
        for i, ((keys, values), (memory_keys, memory_values)) in enumerate(zip(caches, memory)):
            layer = f"transformer.decoder.layers.{i}"
            query, key, value = project(x, f"{layer}.self_attn", 0, 3)
            end = places + x.shape[1]
            keys[:, :, places:end], values[:, :, places:end] = key, value
            attended = attend(f"{layer}.self_attn", query, keys[:, :, :end], values[:, :, :end], visible)
            x = norm(x + attended, f"{layer}.norm1")
            (query,) = project(x, f"{layer}.multihead_attn", 0, 1)
            attended = attend(f"{layer}.multihead_attn", query, memory_keys, memory_values, memory_mask)
            x = norm(x + attended, f"{layer}.norm2")
            x = norm(x + feed_forward(x, layer), f"{layer}.norm3")
        return linear(norm(x, "transformer.decoder.norm"), "projection")

    @torch.inference_mode()
    def decode(source, beam: int) -> list[tuple[list[int], float]]:
        source = torch.tensor(source)
        hidden, memory_mask = encode(source)
        memory = [project(hidden, f"transformer.decoder.layers.{i}.multihead_attn", 1, 3) for i in range(layers)]
        limits = ((source != PAD).sum(1) * limit[0] + limit[1]).int().tolist()
        sentences = torch.arange(len(source))
        room = (len(source), heads, 1 + beam * max(limits), d_model // heads)
        caches = [(torch.empty(room), torch.empty(room)) for _ in range(layers)]
        ended: list[list[tuple[list[int], float]]] = [[] for _ in limits]
        ids = torch.full((len(source), 1, 1), BOS)
        totals = torch.zeros(len(source), 1)
        visible = torch.zeros(len(source), 1, 0, dtype=torch.bool)
        for length in range(1, max(limits) + 1):
            width, places = ids.shape[1], visible.shape[2]
            visible = torch.cat([visible, torch.eye(width, dtype=torch.bool).expand(len(ids), -1, -1)], dim=2)
            x = F.embedding(ids[:, :, -1], weights["target_embedding.weight"]) * math.sqrt(d_model)
            logits = step(x + encoding[length - 1], caches, memory, visible[:, None], memory_mask, places)
            log_probabilities = F.log_softmax(logits, dim=-1)
            log_probabilities[:, :, PAD] = -torch.inf
            candidates = (log_probabilities + totals[:, :, None]).flatten(1)
            totals, where = candidates.topk(2 * beam)
            parents, following = where // vocabulary, where % vocabulary
            ids = torch.cat([ids.gather(1, parents[:, :, None].expand(-1, -1, length)), following[:, :, None]], dim=2)
            ends = following == EOS
            for i, rank in ends[:, :beam].nonzero().tolist():
                if len(ended[sentences[i]]) < beam:
                    ended[sentences[i]].append((ids[i, rank, 1:].tolist(), totals[i, rank].item() / length))
            live = ends.int().argsort(dim=1, stable=True)[:, :beam]
            totals, parents = totals.gather(1, live), parents.gather(1, live)
            ids = ids.gather(1, live[:, :, None].expand(-1, -1, length + 1))
            visible = visible.gather(1, parents[:, :, None].expand(-1, -1, visible.shape[2]))
            going_on = []
            for i, sentence in enumerate(sentences.tolist()):
                if length == limits[sentence]:
                    rest = zip(ids[i, :, 1:].tolist(), (totals[i] / length).tolist())
                    ended[sentence] += list(rest)[: beam - len(ended[sentence])]
                elif len(ended[sentence]) < beam:
                    going_on.append(i)
            if len(going_on) < len(sentences):
                keep = torch.tensor(going_on, dtype=torch.int64)
                sentences, ids, totals, visible, memory_mask = (
                    part[keep] for part in (sentences, ids, totals, visible, memory_mask)
                )
                caches = [(keys[keep], values[keep]) for keys, values in caches]
                memory = [(keys[keep], values[keep]) for keys, values in memory]
        return [max(hypotheses, key=lambda hypothesis: hypothesis[1]) for hypotheses in ended]

    return decode


def floor(config: dict) -> Callable:
    """A search that finds nothing, but multiplies like a beam search in which no hypothesis ends before its limit."""
    import numpy as np

    d, inner, layers = config["d_model"], config["d_ff"], config["num_layers"]
    rng, factor, more = np.random.default_rng(0), *LIMITS["random"]
    attention, network = [(3 * d, d), (d, d)], [(inner, d), (d, inner)]
    encoder = [*attention, *network, (2 * d, d)] * layers  # the last: the decoder's keys and values of the memory
    step = [*[*attention, *[(d, d)] * 2, *network] * layers, (VOCABULARY, d)]
    weights = {shape: rng.standard_normal(shape, dtype=np.float32) for shape in {*encoder, *step}}
    memory: dict[tuple[int, int], Any] = {}  # by size and place: 0 for the operand, 1 for the result

    def room(rows: int, columns: int, place: int) -> Any:
        size = rows * columns
        if (size, place) not in memory:
            memory[size, place] = rng.standard_normal(size, dtype=np.float32)
        return memory[size, place].reshape(rows, columns)

    def multiply(shapes: list[tuple[int, int]], rows: int) -> None:
        for columns, inner in shapes:
            np.matmul(room(rows, inner, 0), weights[columns, inner].T, out=room(rows, columns, 1))

    def decode(source, beam: int) -> list[tuple[list[int], float]]:
        multiply(encoder, source.size)
        limits = (source != PAD).sum(1) * factor + more
        for length in range(1, int(limits.max()) + 1):
            multiply(step, int((limits >= length).sum()) * (beam if length > 1 else 1))
        return []

    return decode


def decoder(
    name: str, root: Path, threads: int, sentences: list[list[int]], size: int, folder: Path | None, made: Made | None
) -> tuple[Callable, Made]:
    """One side: a function from the number of a batch and a beam to its hypotheses, and the initial weights."""
    if name == "torch":
        import torch

        torch.set_num_threads(threads)
        decode = theirs(folder, *made)
    elif name == "floor":
        decode = floor(made[0])
    else:
        checkout = Checkout(root)
        checkout.speed_up()
        decode, made = ours(checkout, folder, made, recomputed=name == "recomputed")
    parts = batches(sentences, size)
    return lambda number, beam: decode(parts[number], beam), made


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--sentences", type=count, default=1000, help="how many (default 1000)")
    parser.add_argument("--model", type=Path, help="the folder of a trained Transformer (default: random weights)")
    parser.add_argument("--source", type=Path, help="a text for it, one sentence a line")
    parser.add_argument("--beam", type=count, default=5, help="hypotheses followed at the same time (default 5)")
    parser.add_argument("--batch", type=count, default=256, help="sentences in a batch (default 256)")
    parser.add_argument("--rounds", type=count, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each side (default 2)")
    parser.add_argument("--sides", type=some_of(*SIDES), help=f"some of {','.join(SIDES)}, cached among them (all)")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.against and arguments.sides:
        refuse("--against compares with that checkout alone, so it takes no --sides")
    usual = [name for name in SIDES if name != "floor" or arguments.model is None]
    names = ["cached", "other"] if arguments.against else arguments.sides or usual
    if "cached" not in names:
        refuse("--sides: expected cached and any of recomputed, torch, floor")
    if arguments.model and "floor" in names:
        refuse("--sides: floor is for random weights, of which no hypothesis ends early")
    if "torch" in names:
        require_torch()
    if (arguments.model is None) != (arguments.source is None):
        refuse("--model and --source belong together")
    try:
        sentences = (
            random_sources(arguments.sentences)
            if arguments.model is None
            else sources(arguments.model, arguments.source, arguments.sentences)
        )
    except (OSError, ValueError, RuntimeError) as error:
        refuse(str(error))
    sides: dict[str, Side] = {}
    made: Made | None = None
    for name in sorted(names):  # cached comes first: the others start from its weights
        environment = {"torch": interleaved.torch, "floor": interleaved.numpy}.get(name, interleaved.ours)
        root = arguments.against if name == "other" else ROOT
        given = (name, root, arguments.threads, sentences, arguments.batch, arguments.model, made)
        sides[name] = Side(decoder, environment(arguments.threads), *given)
        made = sides[name].greeting
    numbers = range(-(-len(sentences) // arguments.batch))
    for side in sides.values():
        side.ask(0, arguments.beam)  # the first call is slower
        side.seconds.clear()
    apart, equal, elsewhere = 0.0, dict.fromkeys(names, 0), Elsewhere(sides.values())
    for _ in range(arguments.rounds):
        for number in numbers:
            answers = {name: side.ask(number, arguments.beam) for name, side in sides.items()}
            for name, found in answers.items():
                for (ids, score), (cached_ids, cached_score) in zip(found, answers["cached"]):
                    if ids == cached_ids:
                        apart, equal[name] = max(apart, abs(score - cached_score)), equal[name] + 1
    rounds = {name: [sum(times) for times in batched(side.seconds, len(numbers))] for name, side in sides.items()}
    used = elsewhere.cores()
    for side in sides.values():
        side.close()
    agree = min(found for name, found in equal.items() if name != "floor") / (len(sentences) * arguments.rounds)
    if apart > APART or agree < AGREE:
        raise SystemExit(
            f"{script()}: {agree:.1%} of the sides' best ids agree, and their scores are {apart:.2g} apart"
        )
    results: dict[str, Any] = {"blas": {name: sides[name].blas for name in names}, "cores_used_by_others": used}
    print(f"{len(sentences)} sentences, beam {arguments.beam}, batches of {arguments.batch}; scores {apart:.1e} apart")
    print(f"{'side':10} {'seconds':>8}   {'cached takes, of it':22} same best ids")
    for name in sorted(names) if is_quiet("decoding", used, arguments.anyway) else ():
        of_it, median = ratio(rounds["cached"], rounds[name]), statistics.median(rounds[name])
        same = equal[name] / (len(sentences) * arguments.rounds)
        print(f"{name:10} {median:8.2f}   {of_it!s:22} {'' if name == 'floor' else f'{same:.1%}'}", flush=True)
        results[name] = {"seconds": median, "cached_takes": of_it._asdict(), "same_ids": same}
    print_blas(results["blas"])
    write_json(arguments.json, results)


def batched(values: list[float], size: int) -> list[list[float]]:
    """The values in parts of this size."""
    return [values[start : start + size] for start in range(0, len(values), size)]


if __name__ == "__main__":
    main()
