"""Shell scripts that reach the agent on a node, and trust nothing that another user of the node could have created.

The default node root is in a directory where every user can make one. So before anything under it is executed, the root
must be a directory of the connecting user that is closed to others, and the archive must have the hash that is its
name. `sha256sum` and `ls` are of coreutils and of busybox.
"""

from __future__ import annotations

from pylaunch.model.argv import Argv
from pylaunch.model.cluster import Host

ROOT_UNTRUSTED = 95
AGENT_ABSENT = 96
PYTHON_ABSENT = 97
AGENTS_DAMAGED = 98

_ROOT = f"""\
root=$1$2
[ "$3" = user ] && root=$1$(id -u)$2
[ -x "$4" ] || exit {PYTHON_ABSENT}
[ -e "$root" ] || [ -L "$root" ] || exit {AGENT_ABSENT}
[ ! -L "$root" ] && [ -d "$root" ] && [ -O "$root" ] || exit {ROOT_UNTRUSTED}
case $(ls -ldn -- "$root") in drwx--[-S]--[-T]*) ;; *) exit {ROOT_UNTRUSTED} ;; esac
whole() {{
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  case $(sha256sum < "$1") in "$2"*) return 0 ;; esac
  return 1
}}
"""

ENTER = f"""\
{_ROOT}
agent=$root/agents/$5.pyz
whole "$agent" "$5" || exit {AGENT_ABSENT}
exec "$4" -I -S "$agent" "$6" --root "$root" --run "$7"
"""
"""Words: the node root before and after the user id, "user" where that stands in it, Python, version, verb, run.

An archive that is damaged counts as absent: it is installed again.
"""

RUNS = f"""\
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
"""
"""The same words without the last three: the newest agent that is whole reports its runs."""


def root_words(host: Host) -> Argv:
    """Return the first three words of both scripts: the node root around `{user}`, and whether that occurs in it."""
    before, placeholder, after = host.node_root.partition("{user}")
    return (before, after, "user" if placeholder else "")
