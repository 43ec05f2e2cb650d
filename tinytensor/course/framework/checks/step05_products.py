"""Checks of step 5: report cards of the products and of the changes of order."""

from tinytensor.course.cards import card, numbers


def check_matmul(matmul):
    """For C = A B the gradients are g Bᵀ and Aᵀ g."""
    flat, stacks = (numbers(2, 3), numbers(3, 5)), (numbers(2, 3, 4), numbers(2, 4, 5))
    card(matmul, flat, stacks, (stacks[0], numbers(4, 5)), skip=["broadcasting"])  # of a matrix and a number


def check_reshape(reshape):
    """The gradient has the numbers of g in the shape of x."""
    card(reshape, (numbers(2, 6),), to=(3, 4))


def check_permute(permute):
    """The gradient goes through the order that undoes `axes`, which is another one where three axes change places."""
    card(permute, (numbers(2, 3, 4),), axes=(0, 2, 1))
    card(permute, (numbers(2, 3, 4),), axes=(1, 2, 0))
