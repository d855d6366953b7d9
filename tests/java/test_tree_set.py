"""Java's TreeSet: sorted, and in the order of its tree where elements have changed since they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.java.tree_set import TreeSet


@given(st.lists(st.integers()))
def test_elements_are_sorted_and_distinct(elements: list[int]) -> None:
    tree: TreeSet[int] = TreeSet(lambda element: element)
    for element in elements:
        tree.add(element)
    assert list(tree) == sorted(set(elements))


def test_an_element_that_changes_keeps_its_place_in_the_tree() -> None:
    order = {"a": 1, "b": 2, "c": 3}
    tree: TreeSet[str] = TreeSet(order.__getitem__)
    for element in order:
        tree.add(element)
    order |= {"b": 9, "d": 5}  # b is the root
    tree.add("d")
    assert list(tree) == ["a", "d", "b", "c"]
