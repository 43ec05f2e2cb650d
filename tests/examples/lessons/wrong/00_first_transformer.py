"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

from tinytensor.nn import functional as F


def rows_of(logits, target):
    return logits.reshape(-1, logits.shape[-1]), target.reshape(-1)


def next_letter_loss__padding_counts(logits, target, pad):
    """positions whose target is `pad` count, too"""
    return F.cross_entropy(*rows_of(logits, target))


def next_letter_loss__sum(logits, target, pad):
    """it is the sum; divide by how many positions count"""
    return F.cross_entropy(*rows_of(logits, target), ignore_index=pad, reduction="sum")


def next_letter_loss__divided_by_all(logits, target, pad):
    """it is divided by all positions"""
    return F.cross_entropy(*rows_of(logits, target), ignore_index=pad, reduction="sum") / target.size


def next_letter_loss__pad_is_0(logits, target, pad):
    """it leaves out the targets that are 0; padding is `pad`"""
    return F.cross_entropy(*rows_of(logits, target), ignore_index=0)


def next_letter_loss__softmax_twice(logits, target, pad):
    """softmax is taken twice"""
    return F.cross_entropy(*rows_of(F.softmax(logits, dim=-1), target), ignore_index=pad)


def next_letter_loss__mean_of_means(logits, target, pad):
    """every letter counts alike"""
    return sum(F.cross_entropy(each, word, ignore_index=pad) for each, word in zip(logits, target)) / len(target)


def next_letter_loss__negative(logits, target, pad):
    """the sign is turned round"""
    return -F.cross_entropy(*rows_of(logits, target), ignore_index=pad)


def next_letter_loss__of_logits(logits, target, pad):
    """log_softmax is missing"""
    return F.nll_loss(*rows_of(logits, target), ignore_index=pad)


def next_letter_loss__not_reshaped(logits, target, pad):
    """It raised"""
    return F.cross_entropy(logits, target, ignore_index=pad)


def train_step__gradients_pile_up(model, optimizer, loss_of):
    """the gradient of the step before is still in it"""
    loss = loss_of(model)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_step__without_step(model, optimizer, loss_of):
    """the weights are the same afterwards"""
    loss = loss_of(model)
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def train_step__without_backward(model, optimizer, loss_of):
    """the weights are the same afterwards"""
    loss = loss_of(model)
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def train_step__zero_in_between(model, optimizer, loss_of):
    """the weights are the same afterwards"""
    loss = loss_of(model)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def train_step__backward_twice(model, optimizer, loss_of):
    """`backward` twice adds the gradient twice"""
    loss = loss_of(model)
    optimizer.zero_grad()
    loss.backward()
    loss_of(model).backward()
    optimizer.step()
    return loss.item()


def train_step__uphill(model, optimizer, loss_of):
    """it goes uphill"""
    loss = loss_of(model)
    optimizer.zero_grad()
    (-loss).backward()
    optimizer.step()
    return loss.item()


def train_step__loss_afterwards(model, optimizer, loss_of):
    """it is the loss after the step"""
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()
    return loss_of(model).item()


def train_step__nothing_returned(model, optimizer, loss_of):
    """is a `return` missing?"""
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def train_step__step_first(model, optimizer, loss_of):
    """the first step: the weights are the same afterwards"""
    loss = loss_of(model)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def train_step__two_steps(model, optimizer, loss_of):
    """it makes two steps"""
    first = loss_of(model)
    for _ in range(2):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return first.item()
