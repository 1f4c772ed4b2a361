# shellcheck shell=bash
# A Slurm cluster of simulated nodes on this machine, for the group slurm.
# SPDX-License-Identifier: BSD-3-Clause
#
#   slurm_start DIR NODES     slurmctld and a slurmd for each node (node0, node1, ...); sets SLURM_CONF
#   slurm_stop DIR            ends them
#
# To be called in a network namespace of its own (unshare --net) with the loopback and one other
# interface up: the daemons take fixed ports, and trust whoever reaches them. Root only. What a node's daemon runs has that
# node's name and software HCA: the task prolog preloads it, so SOFTHCA_* settings come from the job.

_slurm_conf() { # _slurm_conf DIR NODES
    local i host
    host=$(hostname)
    cat <<END
ClusterName=simulated
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool.%n
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.%n.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.%n.log
TmpFS=$1/tmp.%n
TaskProlog=$1/prolog
MailProg=/bin/true
SwitchType=switch/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PropagateResourceLimits=NONE
END
    for ((i = 0; i < $2; i++)); do
        echo "NodeName=node$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((16820 + i)) CPUs=$(nproc)"
    done
    echo "PartitionName=main Nodes=node[0-$(($2 - 1))] Default=YES State=UP OverSubscribe=FORCE"
}

slurm_start() {
    local i end=$((SECONDS + 60))
    mkdir -p "$1/state" || return 1
    cat >"$1/prolog" <<END
#!/bin/sh
echo "export SOFTHCA_HOST=\$SLURMD_NODENAME"
echo "export SOFTHCA_HOSTNAME=\$SLURMD_NODENAME"
echo "export LD_PRELOAD=$BUILD/.libs/libsofthca.so"
END
    chmod +x "$1/prolog"
    _slurm_conf "$1" "$2" >"$1/slurm.conf"
    export SLURM_CONF=$1/slurm.conf
    slurmctld -D >"$1/slurmctld.out" 2>&1 &
    echo $! >"$1/pids"
    for ((i = 0; i < $2; i++)); do
        mkdir -p "$1/spool.node$i" "$1/tmp.node$i"
        slurmd -D -N "node$i" >"$1/slurmd.node$i.out" 2>&1 &
        echo $! >>"$1/pids"
    done
    while [ $SECONDS -lt $end ]; do
        [ "$(timeout 10 sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -eq "$2" ] && return 0
        sleep 0.2
    done
    echo "slurm_start: the nodes are not idle after a minute" >&2
    tail -n 5 "$1"/*.out >&2
    return 1
}

slurm_stop() {
    local pid end=$((SECONDS + 20))
    while read -r pid; do
        kill "$pid" 2>/dev/null
    done <"$1/pids"
    # Not all of them are children of this shell.
    while read -r pid; do
        while kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ]; do
            sleep 0.1
        done
    done <"$1/pids"
}
