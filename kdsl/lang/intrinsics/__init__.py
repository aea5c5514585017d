"""The table of intrinsics: one row each, with all that the compiler, the documentation and the tests know of it.

A row says what the name lowers to (`lowering`), which threads must reach it together (`convergence`), and the least PTX version and compute
capability that its PTX needs. To add an intrinsic that lowers to an existing kind, add a row to the file of its topic and export the name from `kdsl`.
What is not here: mathematics, which is written in the language itself (`kdsl.mathematics`).
"""

from kdsl.lang.intrinsics.row import INTRINSICS as INTRINSICS
from kdsl.lang.intrinsics.row import Intrinsic as Intrinsic
from kdsl.lang.intrinsics.row import Lowering as Lowering
from kdsl.lang.intrinsics.row import ToApproximation as ToApproximation
from kdsl.lang.intrinsics.row import ToAtomic as ToAtomic
from kdsl.lang.intrinsics.row import ToBarrier as ToBarrier
from kdsl.lang.intrinsics.row import ToBinary as ToBinary
from kdsl.lang.intrinsics.row import ToBitcast as ToBitcast
from kdsl.lang.intrinsics.row import ToClock as ToClock
from kdsl.lang.intrinsics.row import ToExchange as ToExchange
from kdsl.lang.intrinsics.row import ToFence as ToFence
from kdsl.lang.intrinsics.row import ToFma as ToFma
from kdsl.lang.intrinsics.row import ToFrontend as ToFrontend
from kdsl.lang.intrinsics.row import ToInstruction as ToInstruction
from kdsl.lang.intrinsics.row import ToScale as ToScale
from kdsl.lang.intrinsics.row import ToSleep as ToSleep
from kdsl.lang.intrinsics.row import ToSpecial as ToSpecial
from kdsl.lang.intrinsics.row import ToUnary as ToUnary
from kdsl.lang.intrinsics.threads import *
from kdsl.lang.intrinsics.exchange import *
from kdsl.lang.intrinsics.atomic import *
from kdsl.lang.intrinsics.arithmetic import *
from kdsl.lang.intrinsics import fast as fast  # whose names are those of accurate functions
from kdsl.lang.intrinsics.clusters import *
from kdsl.lang.intrinsics.grid import *
from kdsl.lang.intrinsics.copies import *
from kdsl.lang.intrinsics.matrix import *
from kdsl.lang.intrinsics.barriers import *
from kdsl.lang.intrinsics.bulk import *
from kdsl.lang.intrinsics.warpgroups import *
from kdsl.lang.intrinsics.registers import *
from kdsl.lang.intrinsics.inline import *
