#!/usr/bin/env bash
# All that concerns a GPU, on a machine that has one: the whole test suite, the examples, the benchmarks.
#
#     pip install -e '.[test,gpu]' torch && bash benchmarks/on_gpu.sh [FOLDER]
#
# Figures and logs go into FOLDER (default runs/gpu). Everything is run, whatever fails; the exit code tells.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-runs/gpu}
mkdir -p "$folder"
failed=0

step() {
    local name=$1
    shift
    printf '\n=== %s\n' "$*"
    "$@" 2>&1 | tee "$folder/$name.log" || { failed=1; echo "=== failed"; }
}

step machine python -m tinytensor
step tests pytest --device gpu -n 8
step images python examples/classify_images.py --device gpu --require-accuracy 0.98 --out "$folder/images"
step copy-task python examples/train_copy_task.py --device gpu --require-accuracy 0.999 --out "$folder/copy-task"
step translation python examples/train_translation.py --device gpu --require-accuracy 0.98 --out "$folder/translation"
gpus=$(python -c 'import cupy; print(cupy.cuda.runtime.getDeviceCount())' || echo 0)
if [ "$gpus" -gt 1 ] && command -v mpiexec > /dev/null; then  # pip install -e '.[distributed]'
    step ranks mpiexec -n "$gpus" python examples/train_copy_task.py --device gpu --require-accuracy 0.999 \
        --out "$folder/ranks"
fi
step op-by-op python benchmarks/train_step.py --device gpu --plain --workloads copy,base --peers eager --rounds 5 \
    --json "$folder/op-by-op.json"
for dropout in 0 0.1; do
    step "small-$dropout" python benchmarks/train_step.py --device gpu --workloads copy,toy --peers eager,hand \
        --dropout "$dropout" --rounds 15 --json "$folder/small-$dropout.json"
    step "large-$dropout" python benchmarks/train_step.py --device gpu --workloads m30k,base --shape 128x64 \
        --peers eager,hand --dropout "$dropout" --rounds 15 --json "$folder/large-$dropout.json"
done
exit "$failed"
