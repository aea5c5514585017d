"""Exchange between the lanes of a warp."""

from __future__ import annotations

from kdsl.lang.intrinsics.row import ToExchange, ToInstruction, row

# fmt: off
# Exchange between lanes
warp_sum = row("warp_sum", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("reduce", "add"), "Sum over the lanes of the warp, combined with xor 16, 8, 4, 2, 1.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_max = row("warp_max", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("reduce", "max"), "Largest value over the lanes of the warp; NaN if any is.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_min = row("warp_min", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("reduce", "min"), "Smallest value over the lanes of the warp; NaN if any is.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_and = row("warp_and", "(value: I, mask: u32 = 0xFFFFFFFF) -> I", ToExchange("reduce", "and"), "Bitwise and over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_or = row("warp_or", "(value: I, mask: u32 = 0xFFFFFFFF) -> I", ToExchange("reduce", "or"), "Bitwise or over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_xor = row("warp_xor", "(value: I, mask: u32 = 0xFFFFFFFF) -> I", ToExchange("reduce", "xor"), "Bitwise exclusive or over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_prefix_sum = row("warp_prefix_sum", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("scan", "add"), "Sum over the lane itself and those below it, combined by halves: 1, 2, 4, 8, 16.", convergence="warp", isa="shfl.sync")
warp_prefix_max = row("warp_prefix_max", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("scan", "max"), "Largest value over the lane itself and those below it; NaN if any is.", convergence="warp", isa="shfl.sync")
warp_prefix_min = row("warp_prefix_min", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("scan", "min"), "Smallest value over the lane itself and those below it; NaN if any is.", convergence="warp", isa="shfl.sync")
warp_exclusive_sum = row("warp_exclusive_sum", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("exclusive", "add"), "Sum over the lanes below: what `warp_prefix_sum` gives the next one below that takes part; 0 in the first.", convergence="warp", isa="shfl.sync")
warp_exclusive_max = row("warp_exclusive_max", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("exclusive", "max"), "Largest value over the lanes below; NaN if any is; in the first one minus infinity, or the least integer of the type.", convergence="warp", isa="shfl.sync")
warp_exclusive_min = row("warp_exclusive_min", "(value: T, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("exclusive", "min"), "Smallest value over the lanes below; NaN if any is; in the first one infinity, or the largest integer of the type.", convergence="warp", isa="shfl.sync")
shuffle = row("shuffle", "(value: T, lane: i64, width: int = 32, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("shuffle", "idx"), "The value of lane `lane % width` of the lane's segment of `width` lanes; the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_xor = row("shuffle_xor", "(value: T, lane_mask: i64, width: int = 32, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("shuffle", "bfly"), "The value of lane `lane_index() ^ (lane_mask % width)`; the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_up = row("shuffle_up", "(value: T, delta: i64, width: int = 32, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("shuffle", "up"), "The value of lane `lane_index() - delta % width`; the own value where the segment of `width` lanes has none.", convergence="warp", isa="shfl.sync")
shuffle_down = row("shuffle_down", "(value: T, delta: i64, width: int = 32, mask: u32 = 0xFFFFFFFF) -> T", ToExchange("shuffle", "down"), "The value of lane `lane_index() + delta % width`; the own value where the segment of `width` lanes has none.", convergence="warp", isa="shfl.sync")
warp_any = row("warp_any", "(predicate: bool, mask: u32 = 0xFFFFFFFF) -> bool", ToExchange("vote", "any"), "Whether it holds in some lane of the warp.", convergence="warp", isa="vote.sync")
warp_all = row("warp_all", "(predicate: bool, mask: u32 = 0xFFFFFFFF) -> bool", ToExchange("vote", "all"), "Whether it holds in all lanes of the warp.", convergence="warp", isa="vote.sync")
warp_ballot = row("warp_ballot", "(predicate: bool, mask: u32 = 0xFFFFFFFF) -> u32", ToExchange("vote", "ballot"), "Bit n says whether it holds in lane n.", convergence="warp", isa="vote.sync")
active_mask = row("active_mask", "() -> u32", ToInstruction("active_mask"), "Bit n says whether lane n is here, too. A GPU may run lanes of a warp apart that take the same way, so it need not name all that come: it is no `mask` to wait with.", isa="activemask", least_ptx=(6, 2), element="u32", example="y[t] = active_mask()")
warp_match_any = row("warp_match_any", "(value: T, mask: u32 = 0xFFFFFFFF) -> u32", ToExchange("match", "any"), "Bit n says whether lane n holds the same bits as this lane.", convergence="warp", isa="match.sync")
warp_match_all = row("warp_match_all", "(value: T, mask: u32 = 0xFFFFFFFF) -> bool", ToExchange("match", "all"), "Whether all lanes of the warp hold the same bits.", convergence="warp", isa="match.sync")
# fmt: on
