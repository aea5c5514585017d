"""What `@kernel` says of launches beside the grid and the block, read and checked when a kernel is declared."""

from __future__ import annotations

from typing import Any, Final

from kdsl.frontend.captures import is_number
from kdsl.frontend.errors import KernelError
from kdsl.frontend.source import Source
from kdsl.lang.attributes import MOST_BLOCKS_OF_CLUSTER, PORTABLE_CLUSTER, Attributes
from kdsl.lang.geometry import Geometry, Grid, Sweep, Tiles

_FORM: Final = "write cluster=2, or cluster=(x, y) or (x, y, z), in whole numbers"


def attributes(source: Source, geometry: Geometry, cluster: Any = None, cooperative: Any = False, programmatic: Any = False) -> Attributes:
    """The attributes of a kernel. Raises KernelError if they make no sense."""
    for name, value in (("cooperative", cooperative), ("programmatic", programmatic)):
        if not isinstance(value, bool):
            raise KernelError(f"{name}={value!r} is neither True nor False", source.definition(), f"write {name}=True, or leave it out")
    if cooperative and programmatic:
        raise KernelError(
            "a kernel is cooperative or programmatic, not both: two launches of it would meet at one barrier",
            source.definition(),
            "leave one of the two out",
        )
    return Attributes(None if cluster is None else _cluster(source, geometry, cluster), cooperative, programmatic)


def _cluster(source: Source, geometry: Geometry, cluster: Any) -> tuple[int, int, int]:
    place = source.definition()
    extents = tuple(cluster) if isinstance(cluster, tuple | list) else (cluster,)
    if not 1 <= len(extents) <= 3 or not all(_is_whole(extent) and extent >= 1 for extent in extents):
        raise KernelError(f"cluster={cluster!r} is no size of a cluster", place, _FORM)
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    if x * y * z > MOST_BLOCKS_OF_CLUSTER:
        hint = f"a cluster has at most {MOST_BLOCKS_OF_CLUSTER} blocks, and at most {PORTABLE_CLUSTER} on every GPU that has clusters"
        raise KernelError(f"cluster={cluster!r} has {x * y * z} blocks", place, hint)
    for axis, extent, along in zip("xyz", (x, y, z), _blocks(geometry), strict=True):
        if isinstance(along, int) and along % extent:
            raise KernelError(
                f"the grid has {along} blocks along {axis}, which is no multiple of the cluster's {extent}",
                place,
                "make the grid a multiple of the cluster in every direction",
            )
    return x, y, z


def _blocks(geometry: Geometry) -> tuple[Any, Any, Any]:
    """Blocks along x, y and z: a number where it is known already, and has to be a multiple of the cluster."""
    match geometry:
        case Grid(x=x, y=y, z=z):
            return x, y, z
        case Sweep(blocks=blocks):
            return blocks, 1, 1
        case Tiles(batch=batch):
            return None, None, batch
        case _:
            return None, 1, 1


def _is_whole(value: Any) -> bool:
    return is_number(value) and not isinstance(value, bool | float) and value == int(value)
