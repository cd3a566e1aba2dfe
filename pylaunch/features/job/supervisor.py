"""The part of a script for sbatch that is the same for all jobs: start, wait until ready, judge an end, stop.

It decides as `course` does. Steps and readiness tests run in the background and write a line into a pipe when they end.
"""

SUPERVISOR = r"""
accepts() { # HOST PORT: it accepts connections.
  timeout 2 bash -c 'exec 3<>"/dev/tcp/$1/$2"' connect "$1" "$2" 2>/dev/null
}
answers() { # HOST PORT PATH: it answers HTTP with a status from 200 to 399; all is read, so that it sees no reset.
  timeout 2 bash -c '
    exec 3<>"/dev/tcp/$1/$2" || exit
    printf "GET %s HTTP/1.0\r\nHost: %s:%s\r\nConnection: close\r\n\r\n" "$3" "$1" "$2" >&3
    read -r _ status _ <&3 && [[ $status == [23]?? ]] || exit
    timeout 0.5 cat <&3 >/dev/null || true
  ' request "$@" 2>/dev/null
}
has_file() { # HOST FILE: it exists there, or does within ten seconds; each test is a step.
  srun --job-name=.readiness --nodes=1 --ntasks-per-node=1 --nodelist="$1" --overlap --cpu-bind=none \
    bash -c 'for _ in {1..10}; do [[ ! -e $1 ]] || exit 0; sleep 1; done; exit 1' file "$2" &>/dev/null
}
say() {
  echo "$(date +%T) $*"
}
end() { # REASON CODE: end the job; the first reason counts.
  [[ -z $reason ]] || return 0
  reason=$1 code=$2
}
launch() { # Start a part and its readiness test.
  local part=$1 role=${1%%.*}
  if [[ -n ${listens[$role]:-} ]] && is_ready "$part"; then
    end "$part was not started: another process answers its readiness test (${ready[$role]})" 1
    return
  fi
  say "$part starts; its output: $logs.$part.out"
  : >"$logs.$part.out" # A requeued job has the id of the one before.
  {
    trap : TERM # Of all processes of the job: this one reports the end of the step.
    (ranks "$part") >"$logs.$part.out" 2>&1 </dev/null
    echo "ended $part $?" >&"$events"
  } &
  state[$part]=ready
  [[ -n ${ready[$role]:-} ]] || return 0
  state[$part]=starting
  deadline[$part]=$((SECONDS + ${ready_timeout[$role]}))
  {
    until is_ready "$part"; do sleep 1; done
    echo "ready $part" >&"$events"
  } &
  testers[$part]=$!
}
launch_all() { # Start the parts whose roles in `after` are ready.
  local part role other gone again=''
  for part in "${parts[@]}"; do
    [[ -z $reason && ${state[$part]} == waiting ]] || continue
    for role in ${after[${part%%.*}]:-}; do
      gone=yes
      for other in ${of_role[$role]}; do
        [[ ${state[$other]} == @(ready|ended) ]] || continue 3
        [[ ${state[$other]} == ended ]] || gone=
      done
      [[ -z $gone ]] || end "$part waits for $role, which has ended" 1
    done
    [[ -z $reason ]] || return 0
    launch "$part"
    again=yes # It may be ready now, and a part before it may wait for it.
  done
  [[ -z $again ]] || launch_all
}
judge() { # PART CODE: decide whether this end ends the job.
  local part=$1 role=${1%%.*} other good=''
  say "$part ended with exit code $2"
  (($2 == 0)) || failed[$part]=yes
  [[ -z $reason ]] || return 0
  if (($2)) && [[ -z ${continues[$role]:-} ]]; then
    end "$part failed with exit code $2" "$2"
    tail -n 5 -- "$logs.$part.out"
  elif [[ -n ${service[$role]:-} && -z ${continues[$role]:-} ]]; then
    end "$part ended, and it is a service" 1
  fi
  for other in "${finite[@]}"; do
    [[ ${state[$other]} == ended ]] || return 0
    [[ -n ${failed[$other]:-} ]] || good+="$other "
  done
  if [[ -n $good ]]; then end "${good}done" 0; else end "all of ${finite[*]} failed" 1; fi
}
end_test() { # PART: end its readiness test, if it runs.
  [[ -z ${testers[$1]:-} ]] || kill "${testers[$1]}" 2>/dev/null
  testers[$1]=''
}
hear() { # Wait for an event, for a second at most.
  local what part status
  read -r -t 1 -u "$events" what part status || return 0
  if [[ $what == ended ]]; then
    state[$part]=ended
    end_test "$part"
    judge "$part" "$status"
  elif [[ ${state[$part]} == starting ]]; then
    state[$part]=ready testers[$part]=''
    say "$part is ready (${ready[${part%%.*}]})"
  fi
}
stop() { # GRACE PART…: end these parts with SIGTERM, and with SIGKILL after so many seconds.
  local grace=$1 since=$SECONDS signal=TERM part step name live
  local -A sent=()
  shift
  while :; do
    live=' '
    for part in "$@"; do
      [[ ${state[$part]} == @(waiting|ended) ]] || live+="$part "
    done
    [[ $live != ' ' ]] || return 0
    ((SECONDS - since < grace)) || signal=KILL
    if ((SECONDS - since > grace + 30)); then
      say "not ended:${live}Slurm kills them with the job"
      return
    fi
    while read -r step name; do
      # ID.batch is this script, whatever a part is called.
      [[ $step == *.+([0-9]) && $live == *" $name "* && -z ${sent[$step $signal]:-} ]] || continue
      sent[$step $signal]=yes
      scancel --signal="$signal" "$step" 2>/dev/null # An error if the step ends meanwhile.
    done < <(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j')
    hear
  done
}

declare -A state=() deadline=() testers=() failed=()
for part in "${parts[@]}"; do state[$part]=waiting; done
reason='' code=0
trap 'end "stopped by a signal" 143' INT TERM
exec {events}<> <(:)
while [[ -z $reason ]]; do
  launch_all
  hear
  for part in "${parts[@]}"; do
    [[ ${state[$part]} == starting ]] || continue
    ((SECONDS >= ${deadline[$part]})) || continue
    role=${part%%.*}
    end "$part was not ready (${ready[$role]}) within ${ready_timeout[$role]} s" 1
    tail -n 5 -- "$logs.$part.out"
  done
done
for part in "${parts[@]}"; do end_test "$part"; done
say "$reason; ending what runs"
""".strip("\n")
