"""The largest matching of a bipartite graph (Hopcroft and Karp), without recursion."""

from __future__ import annotations

from collections.abc import Sequence


def largest_matching(edges: Sequence[Sequence[int]], right_count: int) -> int:
    """Return the number of pairs in the largest matching.

    edges: for each vertex of the left side, the vertices of the right side that may be its partner. right_count: how
    many vertices the right side has. The time is edges * sqrt(vertices).
    """
    left: list[int] = [-1] * len(edges)
    right: list[int] = [-1] * right_count
    size = 0
    for vertex, partners in enumerate(edges):
        for partner in partners:
            if right[partner] < 0:
                left[vertex], right[partner] = partner, vertex
                size += 1
                break
    while distances := _distances(edges, left, right):
        found = sum(_augment(vertex, edges, left, right, distances) for vertex in range(len(edges)) if left[vertex] < 0)
        if not found:
            break
        size += found
    return size


def _distances(edges: Sequence[Sequence[int]], left: list[int], right: list[int]) -> list[int]:
    """Return the length of the shortest alternating path from an unmatched vertex to each vertex of the left side, -1
    if there is none; nothing if no such path ends at an unmatched vertex of the right side."""
    distances = [-1 if partner >= 0 else 0 for partner in left]
    queue = [vertex for vertex, partner in enumerate(left) if partner < 0]
    ends = False
    for vertex in queue:
        for partner in edges[vertex]:
            following = right[partner]
            if following < 0:
                ends = True
            elif distances[following] < 0:
                distances[following] = distances[vertex] + 1
                queue.append(following)
    return distances if ends else []


def _augment(
    begin: int, edges: Sequence[Sequence[int]], left: list[int], right: list[int], distances: list[int]
) -> bool:
    """Look for a shortest alternating path from a vertex to an unmatched one of the right side, and swap its edges."""
    path = [(begin, iter(edges[begin]))]
    chosen: list[int] = []
    while path:
        vertex, partners = path[-1]
        for partner in partners:
            following = right[partner]
            if following >= 0 and distances[following] != distances[vertex] + 1:
                continue
            chosen.append(partner)
            if following < 0:
                for (each, _), other in zip(path, chosen, strict=True):
                    left[each], right[other] = other, each
                return True
            path.append((following, iter(edges[following])))
            break
        else:
            distances[vertex] = -2
            path.pop()
            if chosen:
                chosen.pop()
    return False
