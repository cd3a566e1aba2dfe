"""The protocol between controller and agent: `messages` documents it."""

from pylaunch.protocol.examination import (
    UNASKED as UNASKED,
)
from pylaunch.protocol.examination import (
    Examined as Examined,
)
from pylaunch.protocol.examination import (
    ExaminedChild as ExaminedChild,
)
from pylaunch.protocol.examination import (
    ExaminedCollective as ExaminedCollective,
)
from pylaunch.protocol.examination import (
    ExaminedFrame as ExaminedFrame,
)
from pylaunch.protocol.examination import (
    ExaminedGroup as ExaminedGroup,
)
from pylaunch.protocol.examination import (
    ExaminedOverride as ExaminedOverride,
)
from pylaunch.protocol.examination import (
    ExaminedThread as ExaminedThread,
)
from pylaunch.protocol.examination import (
    RankExamined as RankExamined,
)
from pylaunch.protocol.fields import WireError as WireError
from pylaunch.protocol.messages import (
    AGENT_STOPPED as AGENT_STOPPED,
)
from pylaunch.protocol.messages import (
    EXAMINE as EXAMINE,
)
from pylaunch.protocol.messages import (
    FROM_AGENT as FROM_AGENT,
)
from pylaunch.protocol.messages import (
    HOST_RESTARTED as HOST_RESTARTED,
)
from pylaunch.protocol.messages import (
    MAX_BODY as MAX_BODY,
)
from pylaunch.protocol.messages import (
    MAX_LINE as MAX_LINE,
)
from pylaunch.protocol.messages import (
    NO_RUN as NO_RUN,
)
from pylaunch.protocol.messages import (
    PHASES as PHASES,
)
from pylaunch.protocol.messages import (
    PROTOCOL as PROTOCOL,
)
from pylaunch.protocol.messages import (
    SIGNALLED as SIGNALLED,
)
from pylaunch.protocol.messages import (
    SINCE as SINCE,
)
from pylaunch.protocol.messages import (
    TO_AGENT as TO_AGENT,
)
from pylaunch.protocol.messages import (
    TRY_AGAIN as TRY_AGAIN,
)
from pylaunch.protocol.messages import (
    Examine as Examine,
)
from pylaunch.protocol.messages import (
    Failed as Failed,
)
from pylaunch.protocol.messages import (
    Finished as Finished,
)
from pylaunch.protocol.messages import (
    Follow as Follow,
)
from pylaunch.protocol.messages import (
    Hello as Hello,
)
from pylaunch.protocol.messages import (
    LauncherEnded as LauncherEnded,
)
from pylaunch.protocol.messages import (
    Notify as Notify,
)
from pylaunch.protocol.messages import (
    PeersTried as PeersTried,
)
from pylaunch.protocol.messages import (
    PeersUnheard as PeersUnheard,
)
from pylaunch.protocol.messages import (
    Ping as Ping,
)
from pylaunch.protocol.messages import (
    Pong as Pong,
)
from pylaunch.protocol.messages import (
    Prepare as Prepare,
)
from pylaunch.protocol.messages import (
    RankEnded as RankEnded,
)
from pylaunch.protocol.messages import (
    RanksNotified as RanksNotified,
)
from pylaunch.protocol.messages import (
    Ready as Ready,
)
from pylaunch.protocol.messages import (
    Reason as Reason,
)
from pylaunch.protocol.messages import (
    Refused as Refused,
)
from pylaunch.protocol.messages import (
    Release as Release,
)
from pylaunch.protocol.messages import (
    Stop as Stop,
)
from pylaunch.protocol.messages import (
    Stopping as Stopping,
)
from pylaunch.protocol.messages import (
    TryPeers as TryPeers,
)
from pylaunch.protocol.messages import (
    decode as decode,
)
from pylaunch.protocol.messages import (
    encode as encode,
)
from pylaunch.protocol.messages import (
    from_fields as from_fields,
)
from pylaunch.protocol.node_evidence import (
    KernelMessage as KernelMessage,
)
from pylaunch.protocol.node_evidence import (
    NodeEvidence as NodeEvidence,
)
from pylaunch.protocol.node_evidence import (
    OutOfMemory as OutOfMemory,
)
from pylaunch.protocol.node_evidence import (
    RankSocket as RankSocket,
)
from pylaunch.protocol.node_evidence import (
    RankState as RankState,
)
from pylaunch.protocol.node_task import (
    LAUNCHER_FILES as LAUNCHER_FILES,
)
from pylaunch.protocol.node_task import (
    RANK_ENTRY as RANK_ENTRY,
)
from pylaunch.protocol.node_task import (
    TREE as TREE,
)
from pylaunch.protocol.node_task import (
    Need as Need,
)
from pylaunch.protocol.node_task import (
    NodeTask as NodeTask,
)
from pylaunch.protocol.node_task import (
    RankTask as RankTask,
)
from pylaunch.protocol.output import CaughtUp as CaughtUp
from pylaunch.protocol.output import Output as Output
from pylaunch.protocol.output import Skipped as Skipped
from pylaunch.protocol.rank_starts import (
    FirstLine as FirstLine,
)
from pylaunch.protocol.rank_starts import (
    Preloaded as Preloaded,
)
from pylaunch.protocol.rank_starts import (
    RankStarted as RankStarted,
)
from pylaunch.protocol.rank_starts import (
    Released as Released,
)
from pylaunch.protocol.terminal import TerminalInput as TerminalInput
from pylaunch.protocol.terminal import TerminalOutput as TerminalOutput
from pylaunch.protocol.usage_report import (
    Activity as Activity,
)
from pylaunch.protocol.usage_report import (
    RankSigns as RankSigns,
)
from pylaunch.protocol.usage_report import (
    StepMark as StepMark,
)
from pylaunch.protocol.usage_report import (
    Usage as Usage,
)
