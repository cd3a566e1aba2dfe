"""Shell scripts that reach the agent on a node, and trust nothing that another user of the node could have created.

The default node root is in a directory where every user can make one. So before anything under it is executed, the root
must be a directory of the connecting user that is closed to others, and the archive must have the hash that is its
name. `sha256sum` and `ls` are of coreutils and of busybox.
"""

from pylaunch.base.layout import JOB_VARIABLE
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv

ROOT_UNTRUSTED = 95
AGENT_ABSENT = 96
PYTHON_ABSENT = 97
AGENTS_DAMAGED = 98
INTERPRETER_ABSENT = 94

_OPEN_ENDINGS = ("{", "(", "do", "then", "else", "in", "|", "&&", "||", ";")
"""Ends of lines after which a shell accepts no semicolon."""

STARTS_S = 30
"""For the daemon of a Slurm job, which installs the agent, before the host counts as one without it."""


def _one_line(script: str) -> str:
    """Return `script` on one line: the login shell may be csh, where quotes cannot span lines."""
    lines = [line.strip() for line in script.splitlines() if line.strip()]
    ended = (line if line.endswith(_OPEN_ENDINGS) else f"{line};" for line in lines)
    return " ".join(ended).removesuffix(";")


_TRUST = f"""\
command -v sha256sum > /dev/null || PATH=/usr/bin:/bin${{PATH:+:$PATH}}
root=$1$2
[ "$3" = user ] && root=$1$(id -u)$2
[ -x "$4" ] || exit {PYTHON_ABSENT}
trusted() {{
  [ ! -L "$root" ] && [ -d "$root" ] && [ -O "$root" ] || return 1
  case $(ls -ldn -- "$root") in drwx--[-S]--[-T]*) return 0 ;; esac
  return 1
}}
whole() {{
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  case $(sha256sum < "$1") in "$2"*) return 0 ;; esac
  return 1
}}
"""

_ROOT = f"""\
[ -e "$root" ] || [ -L "$root" ] || exit {AGENT_ABSENT}
trusted || exit {ROOT_UNTRUSTED}
"""

_AWAIT_INSTALLATION = f"""\
left=0
[ -z "${JOB_VARIABLE}" ] || left={STARTS_S * 20}
while [ $left -gt 0 ] && [ ! -f "$root/agents/$5.pyz" ]; do sleep 0.05; left=$((left - 1)); done
"""
"""The daemon of a Slurm job installs the agent, and is being started at the same time."""

ENTER = _one_line(f"""\
{_TRUST}
[ -z "$8" ] || [ -e "$8" ] || [ -L "$8" ] || exit {INTERPRETER_ABSENT}
{_AWAIT_INSTALLATION}
{_ROOT}
agent=$root/agents/$5.pyz
until whole "$agent" "$5"; do
  [ $left -gt 0 ] || exit {AGENT_ABSENT}
  sleep 0.05; left=$((left - 1))
done
exec "$4" -I -S "$agent" "$6" --root "$root" --run "$7"
""")
"""Words: the node root before and after the user id, "user" where that stands in it, Python, version, verb, run, and
the interpreter of the ranks, if it must be there before anything is installed.

An archive that is damaged counts as absent: it is installed again.
"""

RUNS = _one_line(f"""\
{_TRUST}
{_ROOT}
ls -t -- "$root/agents" 2>/dev/null | {{
  end={AGENT_ABSENT}
  while IFS= read -r name; do
    version=${{name%.pyz}}
    [ "$name" != "$version" ] || continue
    end={AGENTS_DAMAGED}
    agent=$root/agents/$name
    [ ${{#version}} -eq 16 ] && whole "$agent" "$version" && exec "$4" -I -S "$agent" runs --root "$root" < /dev/null
  done
  exit $end
}}
""")
"""The same words without the last four: the newest agent that is whole reports its runs."""


START_JOB_DAEMON = f"""\
{_TRUST}
agent=$root/agents/$5.pyz
if trusted && whole "$agent" "$5"; then
  cat > /dev/null
else
  copy=$(mktemp) && cat > "$copy" && "$4" -I -S "$copy" node --root "$root"
  rm -f -- "$copy"
  trusted && whole "$agent" "$5" || exit {AGENT_ABSENT}
fi
exec "$4" -I -S "$agent" job --root "$root" --idle "$6" --job "$7" < /dev/null
"""
"""Words: as for ENTER, with idle seconds and Slurm job instead of verb and run. stdin is the archive, for a node that
lacks it."""


def root_words(host: Host) -> Argv:
    """Return the first three words of both scripts: the node root around `{user}`, and whether that occurs in it."""
    before, placeholder, after = host.node_root.partition("{user}")
    return (before, after, "user" if placeholder else "")
