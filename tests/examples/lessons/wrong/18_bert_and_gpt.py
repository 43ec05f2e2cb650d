"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np

import tinytensor as tt


def future(n, k=1):
    return tt.triu(tt.ones((n, n), dtype=tt.bool), k=k).numpy().copy()


def hidden__causal(source, target):
    """it is the causal mask of all"""
    return future(source + target)


def hidden__exchanged(source, target):
    """True and False are exchanged"""
    mask = future(source + target)
    mask[:source, :source] = False
    return ~mask


def hidden__source_sees_target(source, target):
    """source words must not see the target"""
    mask = future(source + target)
    mask[:source] = False
    return mask


def hidden__target_sees_everything(source, target):
    """target words must not see later ones"""
    mask = np.zeros((source + target,) * 2, dtype=bool)
    mask[:source, source:] = True
    return mask


def hidden__target_sees_no_source(source, target):
    """target words see the source"""
    mask = future(source + target)
    mask[:source, :source] = False
    mask[source:, :source] = True
    return mask


def hidden__itself(source, target):
    """a word may see itself"""
    mask = future(source + target, 0)
    mask[:source, :source] = False
    return mask


def hidden__itself_everywhere(source, target):
    """a word may see itself"""
    return future(source + target, 0)


def hidden__nothing(source, target):
    """nothing is hidden"""
    return np.zeros((source + target,) * 2, dtype=bool)


def hidden__transposed(source, target):
    """it is transposed: a row is a word that looks"""
    mask = future(source + target)
    mask[:source, :source] = False
    return mask.T


def hidden__sizes_exchanged(source, target):
    """source and target are exchanged"""
    mask = future(source + target)
    mask[:target, :target] = False
    return mask


def hidden__of_target_alone(source, target):
    """has shape"""
    return future(target)


def bert_input__all_masked(ids, chosen, dice, other, mask):
    """all chosen words become `mask`"""
    return np.where(chosen, mask, ids)


def bert_input__all_words(ids, chosen, dice, other, mask):
    """words that were not chosen change, too"""
    return np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids))


def bert_input__turned_round(ids, chosen, dice, other, mask):
    """`chosen` is turned round"""
    return np.where(chosen, ids, np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids)))


def bert_input__last_two_exchanged(ids, chosen, dice, other, mask):
    """from 0.8 to 0.9 and from 0.9 are exchanged"""
    return np.where(chosen, np.where(dice < 0.8, mask, np.where(dice < 0.9, ids, other)), ids)


def bert_input__none_stays(ids, chosen, dice, other, mask):
    """from 0.9 on they stay"""
    return np.where(chosen, np.where(dice < 0.8, mask, other), ids)


def bert_input__none_is_another(ids, chosen, dice, other, mask):
    """up to 0.9 they become `other`"""
    return np.where(chosen & (dice < 0.8), mask, ids)


def bert_input__mask_of_99(ids, chosen, dice, other, mask):
    """`mask` is 99 whatever is given"""
    return np.where(chosen, np.where(dice < 0.8, 99, np.where(dice < 0.9, other, ids)), ids)


def bert_input__tenth_first(ids, chosen, dice, other, mask):
    """below 0.1 is `other`"""
    return np.where(chosen, np.where(dice < 0.1, other, np.where(dice < 0.9, mask, ids)), ids)


def bert_input__at_the_limit(ids, chosen, dice, other, mask):
    """at 0.8 `other` begins"""
    return np.where(chosen, np.where(dice <= 0.8, mask, np.where(dice < 0.9, other, ids)), ids)


def bert_input__other_and_mask_exchanged(ids, chosen, dice, other, mask):
    """`other` and `mask` are exchanged"""
    return np.where(chosen, np.where(dice < 0.8, other, np.where(dice < 0.9, mask, ids)), ids)


def bert_input__of_lists(ids, chosen, dice, other, mask):
    """It raised"""
    return [mask if c and d < 0.8 else i for i, c, d in zip(ids, chosen, dice)]
