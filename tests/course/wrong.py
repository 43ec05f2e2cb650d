"""Mistakes that students make: for each step, a piece of its solution, what stands in its place, and what is said."""

WRONG = {
    "step01_op": [
        (
            "*(known[read] for read in reads)",
            "*(known[read] for read in sorted(reads))",
            "what the rule of x gets as x has shape (5,); expected (3, 5)",
        ),
        ("**parameters, ", "", "'k'"),
        (
            'known["shape"] = known[name].shape',
            'known["shape"] = out.shape',
            "the rule of y gets the shape (3, 5); y has (5,)",
        ),
        ("rule(np, g, *", "rule(np, out, *", "what the rule of x gets as g"),
        ("y=lambda xp, g: g)", "y=lambda xp, g: -g)", "correct the rule for y"),
        (
            "x=lambda xp, g, y: g * y",
            "x=lambda xp, g, y: y",
            "backward: multiply gave its input 0, of shape (3, 5), a gradient of",
        ),
        ("y=lambda xp, g, x: g * x", "y=lambda xp, g, y: g * y", "correct the rule for y"),
        ("y=lambda xp, g, y, out: -g * out / y", "y=lambda xp, g, y, out: g * out / y", "correct the rule for y"),
        ("y=lambda xp, g, y, out: -g * out / y", "y=lambda xp, g, y: -g / y**2", "correct the rule for y"),
        ("x=lambda xp, g, out: g * out)", "x=lambda xp, g: g)", "correct the rule for x"),
        ("x=lambda xp, g, x: g / x)", "x=lambda xp, g, out: g / out)", "correct the rule for x"),
        ("g / (2 * out)", "g / out", "correct the rule for x"),
        ("xp.where(x > 0, g, 0))", "xp.where(g > 0, g, 0))", "correct the rule for x"),
        ("xp.where(x > 0, g, 0))", "xp.where(x >= 0, g, 0))", "at 0 it is 0: g only where x is above 0"),
        (
            "x=lambda xp, g, x: g / x)",
            "x=lambda xp, g, value: g / value)",
            "the rule of x names value; there are x, out, shape",
        ),
    ],
    "step02_node": [
        ("any(parent.wants for parent in parents)", "True", "no parent wants a gradient, but the result does"),
        (
            "any(parent.wants for parent in parents)",
            "all(parent.wants for parent in parents)",
            "one of the parents wants a gradient, so the result must want one",
        ),
        (
            "any(parent.wants for parent in parents)",
            "parents[0].wants",
            "the second parent wants a gradient, so the result must want one",
        ),
        (
            "x if isinstance(x, Value) else Value(x)",
            "Value(x.data if isinstance(x, Value) else x, wants=isinstance(x, Value))",
            "a copy gets no gradient",
        ),
        ("op, parents, parameters)\n", "op, parents)\n", "the result remembers the parameters {}; given was k=3.0"),
        ("op, parents, parameters)\n", "op, inputs, parameters)\n", "an input that is an array must become a Value"),
        ("        if parent.wants\n", "", "2 pairs; expected one for each that wants it"),
        (
            "    return [\n        (parent,",
            "    return [\n        (Value(parent.data),",
            "a pair has another parent than expected; keep their order",
        ),
        (
            "value.op.inputs if value.op else ()",
            "value.op.inputs",
            "it fails for a leaf, whose op is None; expected is an empty list",
        ),
        (
            "arrays, value.data, value",
            "arrays, g, value",
            "a gradient: the rule gets as `out` what is not the value's data",
        ),
        (
            "arrays = [parent.data for parent in value.parents]",
            "arrays = [parent.data for parent in value.parents][::-1]",
            "a gradient: the arrays of the inputs come in another order than the",
        ),
    ],
    "step03_walk": [
        (
            "            waiting.append((value, True))\n"
            "            waiting += [(parent, False) for parent in value.parents]\n",
            "            found.append(value)\n            waiting += [(parent, False) for parent in value.parents]\n",
            "loss comes before its parent a product",
        ),
        (
            "value.wants and value not in seen",
            "value not in seen",
            "the constant wants no gradient, and is in the list",
        ),
        (
            "found, seen, waiting = [], set(), [(result, False)]\n",
            "found, seen = [], set()\n"
            "\n"
            "    def visit(value):\n"
            "        if value.wants and value not in seen:\n"
            "            seen.add(value)\n"
            "            for parent in value.parents:\n"
            "                visit(parent)\n"
            "            found.append(value)\n"
            "\n"
            "    visit(result)\n"
            "    return found\n"
            "    waiting = []\n",
            "keep a list of what waits",
        ),
        (
            "arrived[parent] + gradient if parent in arrived else gradient",
            "gradient",
            "all ways to x count: what arrives there later is added",
        ),
        ("g if value.grad is None else value.grad + g", "g", "it adds to what is there"),
        (
            "            arrived[parent] = arrived[parent] + gradient if parent in arrived else gradient\n",
            "            if parent in arrived:\n"
            "                arrived[parent] += gradient\n"
            "            else:\n"
            "                arrived[parent] = gradient\n",
            "a rule may return g itself, which `+=` would change",
        ),
        ("reversed(order(result))", "order(result)", "<Value (3,) of no op>"),
        (
            "        if value.op is None:\n",
            "        if True:\n",
            "a Value that was computed got one; expected leaves alone",
        ),
        (
            "            gradient = fit(gradient, parent.data.shape)\n",
            "",
            "fit was called with shapes []; parents have (2, 3) and (3,)",
        ),
        (
            "fit(gradient, parent.data.shape)",
            "fit(gradient, value.data.shape)",
            "fit was called with shapes [(2, 3), (2, 3)]; parents have (2, 3) and",
        ),
        ("np.ones_like(result.data)", "result.data", "the walk begins with ones, and not with the result's data"),
        (
            "    for value in reversed(order(result)):\n        g = arrived.pop(value)\n",
            "    waiting = [(result, arrived[result])]\n"
            "    while waiting:\n"
            "        value, g = waiting.pop()\n"
            "        waiting += gradients(value, g)\n",
            "a rule was called 8192 times; each value has its turn once, when all",
        ),
    ],
    "step04_broadcast": [
        (
            "    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)\n",
            "    return g\n",
            "axes in front go, and axes of length 1 stay",
        ),
        ("    g = g.sum(axis=tuple(range(g.ndim - len(shape))))\n", "", "axes in front go, and axes of length 1 stay"),
        ("if n == 1), keepdims=True)", "if n == 1))", "axes in front go, and axes of length 1 stay"),
        (
            "g.sum(axis=tuple(range(",
            "g.mean(axis=tuple(range(",
            "a copy is a way to the input, and ways add up: sum, not mean",
        ),
        ("range(g.ndim - len(shape))", "range(len(shape), g.ndim)", "axes in front go, and axes of length 1 stay"),
        ("xp.broadcast_to(g, shape))", "g)", "backward: total gave its input 0, of shape (3, 5), a gradient of"),
        ("xp.broadcast_to(g, shape))", "xp.broadcast_to(g, shape) / shape[-1])", "correct the rule for x"),
        ("/ x.data.shape[axis]", "/ x.data.size", "it is divided by 30: how many numbers does the axis have?"),
        ("/ x.data.shape[axis]", "/ x.data.shape[-1]", "it is divided by 5: how many numbers does the axis have?"),
        (
            "return total(x, axis=axis) / x",
            "return x.data.sum(axis=axis, keepdims=True) / x",
            "the result has type ndarray; expected Value, or no gradient flows",
        ),
    ],
    "step05_products": [
        ("g @ xp.matrix_transpose(y)", "g @ y", "matmul: Input operand 1 has a mismatch in its core dimension 0, with"),
        (
            "g @ xp.matrix_transpose(y)",
            "xp.matrix_transpose(y) @ g",
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with",
        ),
        (
            "xp.matrix_transpose(x) @ g",
            "xp.matrix_transpose(x) * g",
            "operands could not be broadcast together with shapes (3,2) (2,5) . g",
        ),
        (
            "y=lambda xp, g, x: xp.matrix_transpose(x) @ g",
            "y=lambda xp, g, x: x.T @ g",
            "backward: the gradient of matmul (result (2, 3, 5) float64, gradient",
        ),
        ("xp.reshape(g, shape))", "g)", "backward: reshape gave its input 0, of shape (2, 6), a gradient of"),
        (
            "xp.reshape(g, shape))",
            "xp.reshape(g, shape[::-1]))",
            "backward: reshape gave its input 0, of shape (2, 6), a gradient of",
        ),
        (
            "tuple(axes.index(i) for i in range(len(axes)))",
            "axes",
            "backward: permute gave its input 0, of shape (2, 3, 4), a gradient of",
        ),
        (
            "tuple(axes.index(i) for i in range(len(axes)))",
            "axes[::-1]",
            "backward: permute gave its input 0, of shape (2, 3, 4), a gradient of",
        ),
    ],
    "step06_softmax": [
        ("e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))", "e = xp.exp(x)", "softmax of numbers up to 1001 "),
        (
            "    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))\n    return e / xp.sum(e, axis=-1, keepdims=True)\n",
            "    e = xp.exp(x - xp.max(x, axis=-2, keepdims=True))\n    return e / xp.sum(e, axis=-2, keepdims=True)\n",
            "along the wrong axis: the last one adds up to 1",
        ),
        (
            "    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))\n    return e / xp.sum(e, axis=-1, keepdims=True)\n",
            "    e = xp.exp(x - xp.max(x))\n    return e / xp.sum(e)\n",
            "over all numbers at once: each row adds up to 1",
        ),
        ("out * (g - xp.sum(g * out, axis=-1, keepdims=True)))", "g * out * (1 - out))", "correct the rule for x"),
        (
            "out * (g - xp.sum(g * out, axis=-1, keepdims=True)))",
            "out * (g - xp.sum(g, axis=-1, keepdims=True)))",
            "correct the rule for x",
        ),
        (
            "    x = x - xp.max(x, axis=-1, keepdims=True)\n",
            "",
            "log_softmax of numbers up to 1001 is -inf at [0, 0]; expected",
        ),
        ("g - xp.exp(out) * xp.sum(g, axis=-1, keepdims=True))", "g - xp.exp(out))", "correct the rule for x"),
        (" * (ids != pad)[..., None]", "", "padding is counted: leave out the ids that are `pad`"),
        (
            "(-1.0 / (ids != pad).sum())",
            "(-1.0 / ids.size)",
            "the sum is divided by the number of all ids, padding too",
        ),
        ("(-1.0 / (ids != pad).sum())", "-1.0", "it is the sum and not the mean"),
        ("(-1.0 / (ids != pad).sum())", "(1.0 / (ids != pad).sum())", "the minus is missing: log p is below 0"),
        ("picked = log_softmax(logits)", "picked = softmax(logits)", "the logarithm is missing"),
        (
            "(ids != pad)[..., None]\n    return total(picked, axis=(0, 1, 2)) * (-1.0 / (ids != pad)",
            "(ids != 0)[..., None]\n    return total(picked, axis=(0, 1, 2)) * (-1.0 / (ids != 0)",
            "it leaves out id 0, whatever `pad` is",
        ),
    ],
    "step07_norm": [
        ("return mean(away * away, axis=-1)", "return mean(away, axis=-1)", "square them first"),
        (
            "return mean(away * away, axis=-1)",
            "n = x.data.shape[-1]\n    return mean(away * away, axis=-1) * (n / (n - 1))",
            "it is divided by n - 1; layer norm divides by n",
        ),
        (
            "return mean(away * away, axis=-1)",
            "return sqrt(mean(away * away, axis=-1))",
            "it is the standard deviation, the root of the variance",
        ),
        ("away = x - mean(x, axis=-1)", "away = x - mean(x, axis=0)", "the mean is taken over the first axis"),
        (
            "sqrt(variance(x) + EPSILON)",
            "(sqrt(variance(x)) + EPSILON)",
            "EPSILON is added to the root; it belongs to the variance, under it",
        ),
        ("sqrt(variance(x) + EPSILON)", "sqrt(variance(x))", "EPSILON is missing"),
        ("sqrt(variance(x) + EPSILON)", "(variance(x) + EPSILON)", "it is divided by the variance and not by its root"),
        (
            "variance(x) + EPSILON) * gain + bias",
            "variance(x) + EPSILON) * (gain + bias)",
            "the bias is multiplied as well",
        ),
        ("variance(x) + EPSILON) * gain + bias", "variance(x) + EPSILON)", "gain and bias are missing"),
        ("(x - mean(x, axis=-1)) / sqrt", "x / sqrt", "the mean is not subtracted"),
    ],
    "step08_attention": [
        (
            "np.tri(length, dtype=bool)",
            "np.tri(length, k=-1, dtype=bool)",
            "no position sees itself; j <= i may be seen",
        ),
        (
            "np.tri(length, dtype=bool)",
            "np.tri(length, dtype=bool).T",
            "it is turned round: a position must not see what comes behind it",
        ),
        (
            "np.where(np.tri(length, dtype=bool), 0.0, -np.inf)",
            "np.tri(length)",
            "ones and zeros are added to scores, and hide nothing: 0 where it may",
        ),
        (" * key.data.shape[-1] ** -0.5", "", "it is not scaled by 1 / √d_k"),
        ("key.data.shape[-1] ** -0.5", "value.data.shape[-1] ** -0.5", "it is scaled by 1 / √d_v"),
        ("key.data.shape[-1] ** -0.5", "key.data.shape[-1] ** -1.0", "it is scaled by 1 / d_k; the root is missing"),
        ("softmax(scores + mask) @ value", "softmax(scores) @ value", "the mask hides nothing"),
        (
            "softmax(scores + mask) @ value",
            "softmax(scores) * np.exp(mask) @ value",
            "the mask comes behind softmax, so weights do not add up to 1",
        ),
        ("softmax(scores + mask) @ value", "(scores + mask) @ value", "softmax is missing"),
        (
            "permute(reshape(x, to=(batch, length, heads, d // heads)), axes=(0, 2, 1, 3))",
            "reshape(x, to=(batch, heads, length, d // heads))",
            "split d, then change axes",
        ),
        (
            "permute(reshape(x, to=(batch, length, heads, d // heads)), axes=(0, 2, 1, 3))",
            "permute(reshape(x, to=(batch, length, d // heads, heads)), axes=(0, 3, 1, 2))",
            "it takes every heads-th feature; a head has a piece in a row",
        ),
        (
            "reshape(permute(x, axes=(0, 2, 1, 3)), to=",
            "reshape(x, to=",
            "it mixes positions: first change the axes, as in split_heads",
        ),
        (
            "permute(reshape(x, to=(batch, length, heads, d // heads)), axes=(0, 2, 1, 3))",
            "x.data.reshape(batch, length, heads, d // heads).transpose(0, 2, 1, 3)",
            "split_heads: the result has type ndarray; expected Value, or no gradient flows",
        ),
        (
            "permute(reshape(x, to=(batch,",
            "permute(reshape(x.data, to=(batch,",
            "the gradient of an array (2, 3, 20) in 4 heads is None",
        ),
        (
            "reshape(permute(x, axes=(0, 2, 1, 3)), to=(batch, length, heads * width))",
            "x.data.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)",
            "join_heads: the result has type ndarray; expected Value, or no gradient flows",
        ),
        (
            "reshape(permute(x, axes=(0, 2, 1, 3)), to=",
            "reshape(permute(x.data, axes=(0, 2, 1, 3)), to=",
            "the gradient of 4 heads that are joined is None",
        ),
    ],
    "step09_transformer": [
        (
            "10000 ** (np.arange(0, d_model, 2) / d_model)",
            "10000 ** (np.arange(0, d_model, 2) / 2 / d_model)",
            "the exponent",
        ),
        (
            "[np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)",
            "[np.sin(angles), np.cos(angles)], axis=1).reshape(length, d_model)",
            "sines and cosines take turns: sine in column 2i, cosine in 2i + 1",
        ),
        ("[np.sin(angles), np.cos(angles)]", "[np.cos(angles), np.sin(angles)]", "sine and cosine have changed places"),
        ("np.arange(length)[:, None]", "np.arange(1, length + 1)[:, None]", "the first position"),
        ("vectors * self.d_model**0.5 +", "vectors +", "rows are not multiplied by √d_model"),
        (" + positions(ids.shape[1], self.d_model)", "", "positions are missing"),
        (
            "table.data.shape[0]) @ table\n",
            "table.data.shape[0]) @ table.data\n",
            "use one_hot(ids) @ embedding, not its",
        ),
        (
            "result = relu(x @ self.parameters",
            "result = (x @ self.parameters",
            "relu is missing: two products in a row are one",
        ),
        ("return self.add_and_norm(name, x, result)", "return result", "Add & Norm is missing"),
        (
            "x, x, causal_mask(target.shape[1]))",
            "x, x, 0.0)",
            "a position sees those behind it; self-attention takes the causal mask",
        ),
        (
            "x, memory, padding_mask(source, self.pad))",
            "x, memory, 0.0)",
            "it looks at the source's padding; attention to the memory takes the",
        ),
        (
            "x, memory, padding_mask(source, self.pad))",
            "x, x, causal_mask(target.shape[1]))",
            "the memory changes nothing; in `cross`, keys and values come from the",
        ),
        (
            '                x = self.feed_forward(f"decoder.{i}.forward", x)\n',
            "",
            "what `decode` gives (in each layer self, cross, forward, in this",
        ),
        (
            '                x = self.attend(f"decoder.{i}.self", x, x, causal_mask(target.shape[1]))\n'
            '                x = self.attend(f"decoder.{i}.cross", x, memory, padding_mask(source, self.pad))\n',
            '                x = self.attend(f"decoder.{i}.cross", x, memory, padding_mask(source, self.pad))\n'
            '                x = self.attend(f"decoder.{i}.self", x, x, causal_mask(target.shape[1]))\n',
            "what `decode` gives (in each layer self, cross, forward, in this",
        ),
    ],
    "step10_adam": [
        ("            value.grad = None\n", "            value.grad = 0.0\n", "the gradient of w, b, idle is not None"),
        ("        self.steps += 1\n", "", "t"),
        (" / (1 - first**self.steps)", "", "m is not divided by 1 - β₁ᵗ"),
        (" / (1 - second**self.steps)", "", "v is not divided by 1 - β₂ᵗ"),
        ("(np.sqrt(v) + self.epsilon)", "np.sqrt(v + self.epsilon)", "epsilon is under the root; it is added to it"),
        ("(np.sqrt(v) + self.epsilon)", "(v + self.epsilon)", "the root of v is missing"),
        ("(1 - second) * value.grad**2", "(1 - second) * value.grad", "w after step 1"),
        ("(1 - first) * value.grad\n", "value.grad\n", "m takes (1 - β₁) of the gradient"),
        ("value.data - self.lr", "value.data + self.lr", "it goes with the gradient; the loss falls against it"),
        (
            "            if value.grad is None:\n                continue\n",
            "",
            "unsupported operand type(s) for *: 'float' and 'NoneType'",
        ),
        (
            "        self.steps += 1\n"
            "        first, second = self.betas\n"
            "        for name, value in self.parameters.items():\n",
            "        first, second = self.betas\n"
            "        for name, value in self.parameters.items():\n"
            "            self.steps += 1\n",
            "a step is counted once, not once for each parameter",
        ),
    ],
    "step11_train": [
        ("(step + 1) / WARM_UP", "step / WARM_UP", "the first step is step 0, and has a rate of 1 / WARM_UP"),
        ("min((step", "max((step", "the smaller of the two counts"),
        (
            "1 - step / steps)",
            "1 - (step - WARM_UP) / steps)",
            "the falling line begins at step 0; the lower of both counts",
        ),
        ("    optimizer.zero_grad()\n", "", "the weights after step 2, which must not know the gradient of the"),
        (
            "    optimizer.zero_grad()\n    backward(loss)\n",
            "    backward(loss)\n    optimizer.zero_grad()\n",
            "they do not move: the gradient has to be there when the optimiser",
        ),
        (
            "    backward(loss)\n    optimizer.step()\n",
            "    optimizer.step()\n    backward(loss)\n",
            "they do not move: the gradient has to be there when the optimiser",
        ),
        (
            "batch.target_out, model.pad",
            "batch.target_in, model.pad",
            "it is to say `target_out`, not what it was given",
        ),
        (
            "model(batch.source, batch.target_in)",
            "model(batch.source, batch.target_out)",
            "the model is given `target_in`: `target_out` is the answer",
        ),
        ("batch.target_out, model.pad", "batch.target_out, 0", "padding is `model.pad`"),
        ("return loss.data.item()", "return loss", "the loss has type Value; expected a float"),
        ("    optimizer.step()\n", "", "they do not move: the gradient has to be there when the optimiser"),
    ],
    "step12_generate": [
        ("[:, -1].argmax", "[:, 0].argmax", "the next id is the one behind the last, at place -1"),
        ("argmax(axis=-1)", "argmin(axis=-1)", "the ids of three sources, at most 9 has shape (3, 9); expected (3, 4)"),
        ("        best = np.where(ended, PAD, best)\n", "", "behind EOS comes only PAD"),
        ("return target[:, 1:]", "return target", "BOS is no part of the result"),
        (
            "np.full((len(source), 1), BOS)",
            "np.full((len(source), 1), EOS)",
            "the target begins with 2; expected BOS, which",
        ),
        (" and not ended.all()", "", "it goes on when all rows have ended"),
        ("not ended.all()", "not ended.any()", "it ends with the first row that ends: wait for all"),
        (
            "target.shape[1] <= longest",
            "target.shape[1] < longest",
            "one id is missing at the end: there may be `longest` of them",
        ),
        (
            "model.decode(target, memory, source)",
            "model.decode(target, model.encode(source), source)",
            "the source was encoded 5 times; once is enough",
        ),
        (
            "ended |= best == EOS",
            "ended = best == EOS",
            "the ids of three sources, at most 9 has shape (3, 9); expected (3, 4)",
        ),
    ],
}
