#!/usr/bin/env bash
# boot.sh FOLDER CHECKOUT: a real systemd as the first process of namespaces of its own, on an overlay of this machine's
# root, so that nothing that it does reaches the machine. Run by host.py, in a child cgroup, by:
#   unshare --pid --mount --cgroup --uts --ipc --net --fork --kill-child
# FOLDER is a tmpfs of host.py's, which outlives this: what the host writes is there at its next boot.
# Does not return: it becomes systemd.
# CHECKOUT is seen at its own place in the host, also where the host has a folder of its own above it.
set -eu
B=$1
CHECKOUT=$2

mount --make-rprivate /
mkdir -p "$B/up" "$B/work" "$B/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$B/up,workdir=$B/work" "$B/root"
R=$B/root

mount -t proc proc "$R/proc"
mount -t sysfs sysfs "$R/sys" -o ro 2>/dev/null || mount --rbind /sys "$R/sys"
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
mount --rbind /dev "$R/dev"
mount -t tmpfs tmpfs "$R/run" -o mode=755
mount -t tmpfs tmpfs "$R/tmp" -o mode=1777
case $CHECKOUT in
/tmp/* | /run/*)
    mkdir -p "$B/checkout" "$B/checkout.work" "$R$CHECKOUT"
    mount -t overlay overlay -o "lowerdir=$CHECKOUT,upperdir=$B/checkout,workdir=$B/checkout.work" "$R$CHECKOUT"
    ;;
esac

# What belongs to the machine, and would wait for devices, stays away.
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udev-settle.service systemd-modules-load.service \
    systemd-timesyncd.service systemd-networkd.service systemd-resolved.service systemd-remount-fs.service \
    systemd-sysctl.service systemd-binfmt.service systemd-random-seed.service systemd-firstboot.service \
    systemd-hwdb-update.service systemd-pcrphase.service systemd-pcrphase-sysinit.service systemd-logind.service \
    systemd-journal-flush.service systemd-machine-id-commit.service systemd-boot-system-token.service \
    kmod-static-nodes.service \
    proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
    sys-kernel-config.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount \
    systemd-udevd-control.socket systemd-udevd-kernel.socket getty.target console-getty.service; do
    ln -sfn /dev/null "$R/etc/systemd/system/$unit"
done
if [ ! -e "$B/booted" ]; then
    # What the machine starts beside; what the host enables itself stays.
    rm -rf "$R"/etc/systemd/system/*.wants
    : >"$R/etc/fstab"
    : >"$R/etc/machine-id"
    touch "$B/booted"
fi
mkdir -p "$R/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' >"$R/etc/systemd/journald.conf.d/volatile.conf"

cd "$R"
mkdir -p .before
pivot_root . .before
umount -l /.before
mount -t tmpfs tmpfs /dev/shm -o mode=1777
# A credential is mounted by a helper of systemd's, and reaches the unit only through a shared tree.
mount --make-rshared /
ip link set lo up 2>/dev/null || true
exec env -i container=boxmaker PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
    /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=no
