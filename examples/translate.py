r"""Translate lines with a model trained by train_translation.py.

    python examples/translate.py runs/translation < english.txt > french.txt
    echo "the black cat eats the fresh bread." | python examples/translate.py runs/translation --attention out.svg
    echo "Louis found a box and opened it." | python examples/translate.py runs/translation --attention it.svg \
        --kind encoder --token it                                    (what one word looked at, within the line)
    python examples/translate.py runs/translation                    (a terminal: asks for one line after the other)

A line goes in, a line comes out, in the same order; an empty line stays empty. A line that cannot be translated is
reported on stderr, gives an empty line, and makes the exit code 2. With --n-best N each line gives N lines: its number,
the score (mean log-probability of an id, for --length-penalty 1) and the translation, with tabs between; an empty line
gives none.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor.models import Translator
from tinytensor.models.decoding import sample
from tinytensor.models.decoding_trace import draw_decoding
from tinytensor.models.pretrained import CONFIG, PretrainedError
from tinytensor.models.scripts import command_line
from tinytensor.models.sentence_attention import END, KINDS, SentenceAttention
from tinytensor.models.training import plots
from tinytensor.models.training.evaluation import LIMIT
from tinytensor.models.training.run_folder import CHECKPOINT, RunFolderError, read_checkpoint
from tinytensor.models.translator import Translation

PROMPT = "> "


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="translate.py", description="Translate lines from standard input.", trains=False)
    p.add_argument(
        "folder", type=Path, help="what train_translation.py wrote (its --out), or Translator.save_pretrained"
    )
    p.add_argument("--beam", type=command_line.size, help="hypotheses followed; 1: greedy; default: 5")
    p.add_argument("--n-best", type=command_line.size, metavar="N", help="show the N best, with scores")
    p.add_argument("--length-penalty", type=command_line.within(-10, 10), help="above 1: longer translations, below: "
                   "shorter; default: 1")  # fmt: skip
    p.add_argument("--attention", type=Path, metavar="FILE", help="draw what each word looked at (.svg or .html); of "
                   "several lines, the second and later ones get their number in the name")  # fmt: skip
    p.add_argument("--kind", choices=KINDS, help="of the attention in an .svg: of the translation to the line (cross, "
                   "the default), within the line (encoder), within the translation (decoder)")  # fmt: skip
    p.add_argument("--token", metavar="WORD", help="in an .svg: what this word alone looked at, a colour for each head")
    p.add_argument("--layer", type=command_line.non_negative_int, help="in an .svg: from 0; default: the clearest")
    p.add_argument("--head", type=command_line.non_negative_int, help="in an .svg: from 0; default: all")
    p.add_argument("--decoding", type=Path, metavar="FILE.svg", help="draw how the translation was found: the tree of "
                   "the beam search; with --beam 1 or --sample, what else could be said at each step")  # fmt: skip
    p.add_argument("--sample", action="store_true", help="draw words from the model's probabilities, no beam search")
    p.add_argument(
        "--temperature", type=command_line.positive_float, default=1.0, help="with --sample: below 1, bolder"
    )
    p.add_argument("--top-k", type=command_line.size, help="with --sample: of the k likeliest only")
    p.add_argument("--top-p", type=command_line.fraction, help="with --sample: of the likeliest that make p together")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="with --sample: draws follow from it")
    p.add_argument("--batch-lines", type=command_line.size, default=1024, help="lines read before any is written")
    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    return p


def check(arguments: argparse.Namespace) -> None:
    if arguments.sample:
        for name in ("n_best", "beam", "length_penalty"):
            if getattr(arguments, name) is not None:
                option = "--" + name.replace("_", "-")
                raise command_line.UsageError(f"{option} is for beam search; it does not go with --sample")
    elif arguments.top_k or arguments.top_p or arguments.temperature != 1.0:
        raise command_line.UsageError("--temperature, --top-k and --top-p are for drawing: add --sample")
    if arguments.top_p == 0:
        raise command_line.UsageError("--top-p must be above 0")
    arguments.beam = arguments.beam or 5
    if (arguments.n_best or 1) > arguments.beam:
        raise command_line.UsageError(f"--n-best {arguments.n_best} needs --beam {arguments.n_best} at least")
    if arguments.attention is not None and arguments.attention.suffix.lower() not in (".svg", ".html"):
        raise command_line.UsageError(f"--attention {arguments.attention}: expected a name that ends in .svg or .html")
    if arguments.decoding is not None and arguments.decoding.suffix.lower() != ".svg":
        raise command_line.UsageError(f"--decoding {arguments.decoding}: expected a name that ends in .svg")
    if arguments.decoding is not None and arguments.decoding == arguments.attention:
        raise command_line.UsageError("--decoding and --attention: two pictures need two names")
    for name in ("kind", "token", "layer", "head"):
        if getattr(arguments, name) is not None and not arguments.attention:
            raise command_line.UsageError(f"--{name} is for a picture: add --attention FILE.svg")
        if getattr(arguments, name) is not None and arguments.attention.suffix.lower() == ".html":
            raise command_line.UsageError(f"--{name} is for an .svg; in the page of an .html you choose it yourself")
    arguments.kind = arguments.kind or "cross"


def check_attention(model: Any, arguments: argparse.Namespace) -> None:
    """Raise UsageError if the model does not have the attention for the requested picture."""
    found = SentenceAttention.of(model, ([[model.eos_id]], [[model.bos_id]]), [END], [END]).layers
    if not found:
        raise command_line.UsageError("--attention: this model has no attention")
    kind = arguments.kind
    if kind not in found:
        raise command_line.UsageError(f"--kind {kind}: this model has no such attention; it has {', '.join(found)}")
    for name, count in (("layer", len(found[kind])), ("head", found[kind][0].weights.shape[1])):
        given = getattr(arguments, name)
        if given is not None and given >= count:
            only = f"{count} {name}s of this kind, 0 to {count - 1}" if count > 1 else f"one {name} of this kind, 0"
            raise command_line.UsageError(f"--{name} {given}: the model has {only}")


def load(arguments: argparse.Namespace) -> Translator:
    folder = arguments.folder
    try:
        missing = not folder.exists()
        unfinished = not (folder / CONFIG).is_file() and (folder / CHECKPOINT).is_file()
    except OSError as error:
        raise command_line.UsageError(f"cannot read {folder}: {error.strerror or error}") from None
    if missing:
        hint = f"train a model first: python examples/train_translation.py --out {folder}"
        raise command_line.UsageError(f"no run in {folder}; {hint}")
    if unfinished:
        with command_line.told(RunFolderError):
            state = read_checkpoint(folder)
        if "train_source" not in state["arguments"]:
            raise command_line.UsageError(f"{folder} holds a run that trains no translator")
        raise command_line.UsageError(
            f"{folder} holds a run that has not ended; end it with: "
            f"python examples/train_translation.py --resume --out {folder}"
        )
    try:
        with command_line.told(PretrainedError, tt.DeviceError):
            translator = Translator.from_pretrained(folder, arguments.device)
    except ModuleNotFoundError as error:
        raise command_line.UsageError(f"{error.name} is not installed; run: pip install -e '.[text]'") from None
    if arguments.attention is not None:
        check_attention(translator.model, arguments)
    return translator


def translate(translator: Translator, lines: list[str], arguments: argparse.Namespace) -> list[list[Translation]]:
    def draw(model: Any, ids: Any) -> Any:
        return sample(model, ids, max_length=LIMIT, **narrowed(arguments))

    return translator.translate(
        lines,
        num_beams=arguments.beam,
        num_return_sequences=arguments.n_best or 1,
        length_penalty=length_penalty(arguments),
        decode=draw if arguments.sample else None,
    )


def narrowed(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"temperature": arguments.temperature, "top_k": arguments.top_k, "top_p": arguments.top_p}


def length_penalty(arguments: argparse.Namespace) -> float:
    return 1.0 if arguments.length_penalty is None else arguments.length_penalty


def show(translations: list[Translation], number: int, arguments: argparse.Namespace) -> None:
    if arguments.n_best is None:
        print(translations[0].text if translations else "")
    for translation in translations if arguments.n_best is not None else ():
        print(f"{number}\t{translation.score:.4f}\t{translation.text}")


def pipe(translator: Translator, arguments: argparse.Namespace) -> int:
    """Translate every line that can be translated, and report the others. Returns the exit code."""
    number, code = 0, command_line.EXIT_OK
    while read := list(islice(sys.stdin.buffer, arguments.batch_lines)):
        lines = [""] * len(read)
        for i, line in enumerate(read):
            try:
                text = line.decode("utf-8" if number + i else "utf-8-sig").strip()
                translator.encode(text)
                lines[i] = text
            except ValueError as error:
                why = f"not UTF-8 (byte {error.start + 1} of it)" if isinstance(error, UnicodeDecodeError) else error
                print(f"translate.py: line {number + i + 1}: {why}", file=sys.stderr)
                code = command_line.EXIT_BAD_INPUT
        with command_line.told(ValueError):
            found = translate(translator, lines, arguments)
        for text, translations in zip(lines, found):
            number += 1
            show(translations, number, arguments)
            if translations:
                try:
                    list(draw(translator, text, translations[0], number, arguments))
                except ValueError as error:
                    print(f"translate.py: line {number}: {error}", file=sys.stderr)
                    code = command_line.EXIT_BAD_INPUT
        sys.stdout.flush()
    return code


def draw(
    translator: Translator, line: str, translation: Translation, number: int, arguments: argparse.Namespace
) -> Iterator[Path]:
    """Draw the requested pictures; those of the first line have the given names, the names of others have its number.

    Raises ValueError if the line, or its translation, does not have the word of --token.
    """

    def named(path: Path) -> Path:
        return path.with_name(f"{path.stem}-{number}{path.suffix}") if number > 1 else path

    if arguments.decoding is not None:
        path = named(arguments.decoding)
        found: dict[str, Any] = {"beam": arguments.beam, "length_penalty": length_penalty(arguments)}
        if arguments.sample:
            found = {"beam": 1, **narrowed(arguments)}
        draw_decoding(path, translator, line, translation, **found)
        yield path
    if arguments.attention is None:
        return
    path = named(arguments.attention)
    seen = translator.sentence_attention(line, translation)
    try:
        token = None if arguments.token is None else seen.find(arguments.kind, arguments.token)
    except ValueError as error:
        raise ValueError(f"--token: {error}") from None
    plots.draw_attention(path, seen, arguments.kind, layer=arguments.layer, head=arguments.head, token=token)
    yield path


def converse(translator: Translator, arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("readline") is not None:
        importlib.import_module("readline")  # arrow keys and a history for input()
    print("one line at a time; Ctrl-D ends")
    number = 0
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            print()
            return command_line.EXIT_OK
        if not line:
            continue
        try:
            translations = translate(translator, [line], arguments)[0]
        except ValueError as error:
            print(f"cannot translate this: {str(error).removeprefix('line 1: ')}")
            continue
        number += 1
        show(translations, number, arguments)
        try:
            for path in draw(translator, line, translations[0], number, arguments):
                print(f"wrote {path}")
        except ValueError as error:
            print(f"cannot draw this: {error}")


def main() -> int:
    arguments = parser().parse_args()
    check(arguments)
    if sys.stdin is None:
        raise command_line.UsageError("there is no standard input to translate: it is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    tt.speed_up()
    tt.manual_seed(arguments.seed)
    translator = load(arguments)
    return (converse if sys.stdin.isatty() else pipe)(translator, arguments)


if __name__ == "__main__":
    command_line.run(main)
