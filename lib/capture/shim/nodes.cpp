// SPDX-License-Identifier: MIT
#include "capture/shim/nodes.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <string_view>

#include "capture/print.hpp"
#include "capture/shim/buffers.hpp"
#include "capture/shim/journal.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr unsigned drm_major = 226;

/// Of DRM_IOCTL_VERSION.
struct DrmVersion {
  int major;
  int minor;
  int patch;
  std::size_t name_bytes;
  char* name;
  std::size_t date_bytes;
  char* date;
  std::size_t description_bytes;
  char* description;
};
static_assert(sizeof(DrmVersion) == 64);
constexpr unsigned long drm_version = _IOC(_IOC_READ | _IOC_WRITE, 'd', 0, sizeof(DrmVersion));

/// Read without the lock, changed with it.
struct Entry {
  std::atomic<std::uint64_t> word = 0;  ///< file << 8 | What
  std::atomic<std::uint64_t> identity = 0;
  std::atomic<bool> announced = false;
  std::atomic<std::uint32_t> create_bytes = 0;
  std::atomic<std::uint32_t> version = 0;
};

constinit Entry entries[max_nodes];
constinit std::atomic<int> highest = -1;
constinit std::uint32_t last_file = 0;
constinit std::atomic<bool> told_full = false;

std::uint64_t identity_of(const struct stat& status) noexcept {
  const std::uint64_t device = (status.st_dev << 20 ^ status.st_rdev) * 0x9e3779b97f4a7c15U;
  return (device ^ status.st_ino * 0xc2b2ae3d27d4eb4fU) | 1;
}

Seen of(const Entry& entry) noexcept {
  const std::uint64_t word = entry.word.load(std::memory_order_acquire);
  return {static_cast<What>(word & 0xff), static_cast<std::uint32_t>(word >> 8)};
}

void set(Entry& entry, Seen seen) noexcept {
  entry.word.store(std::uint64_t{seen.file} << 8 | static_cast<std::uint64_t>(seen.what),
                   std::memory_order_release);
}

bool is_node(What what) noexcept { return what == What::rknpu || what == What::rkchain; }

std::size_t path_of(int fd, char* to, std::size_t room) noexcept {
  char link[32] = "/proc/self/fd/";
  std::size_t used = std::strlen(link);
  char digits[12];
  std::size_t count = 0;
  for (int rest = fd; count == 0 || rest != 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count != 0) link[used++] = digits[--count];
  link[used] = '\0';
  const std::int64_t got =
      raw(SYS_readlinkat, static_cast<std::uint64_t>(AT_FDCWD), word(link), word(to), room);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

/// A regular file stands for the node where a test plays the driver; no real one answers.
bool may_be_drm(const struct stat& status) noexcept {
  return (S_ISCHR(status.st_mode) && major(status.st_rdev) == drm_major) || S_ISREG(status.st_mode);
}

What find_out(int fd, What wanted, const struct stat& status, Entry& entry) noexcept {
  if (wanted == What::rkchain) {
    char path[512];
    const std::string_view name(path, path_of(fd, path, sizeof(path)));
    const bool device = S_ISCHR(status.st_mode) || S_ISREG(status.st_mode);
    return device && name.ends_with("/rkchain") ? What::rkchain : What::other;
  }
  if (!may_be_drm(status)) return What::other;
  char name[16] = {};
  DrmVersion version{};
  version.name = name;
  version.name_bytes = sizeof(name);
  const KeepErrno keep;
  if (next_ioctl(fd, drm_version, &version) != 0) return What::other;
  if (version.name_bytes != 5 || std::memcmp(name, "rknpu", 5) != 0) return What::other;
  entry.version.store(
      static_cast<std::uint32_t>(version.major * 10000 + version.minor * 100 + version.patch));
  return What::rknpu;
}

void announce(int fd, Entry& entry) noexcept {
  char path[512];
  const std::size_t bytes = path_of(fd, path, sizeof(path));
  Node fixed{};
  fixed.fd = fd;
  fixed.kind = static_cast<std::uint32_t>(of(entry).what == What::rkchain ? NodeKind::rkchain
                                                                          : NodeKind::rknpu);
  fixed.driver_version = entry.version.load();
  fixed.create_bytes = entry.create_bytes.load();
  record(Kind::node, fixed, path, bytes);
  entry.announced.store(true);
  if (depth() != Depth::submits) announce_buffers(of(entry).file, fd);
}

bool shared(std::uint32_t file, int fd) noexcept {
  for (int i = 0; i <= highest.load(); i++)
    if (i != fd && of(entries[i]).file == file && is_node(of(entries[i]).what)) return true;
  return false;
}

/// With the lock.
void drop(int fd) noexcept {
  Entry& entry = entries[fd];
  const Seen seen = of(entry);
  if (is_node(seen.what)) {
    if (!shared(seen.file, fd)) drop_buffers(seen.file);
    if (entry.announced.load()) {
      Closed fixed{};
      fixed.fd = fd;
      record(Kind::closed, fixed);
    }
  }
  set(entry, {});
  entry.identity.store(0);
  entry.announced.store(false);
  entry.create_bytes.store(0);
  entry.version.store(0);
}

/// With the lock.
Seen settle(int fd, What wanted, std::uint32_t create_bytes, const struct stat& status) noexcept {
  Entry& entry = entries[fd];
  const std::uint64_t identity = identity_of(status);
  Seen seen = of(entry);
  if (seen.what != What::unknown && entry.identity.load() != identity) {
    drop(fd);
    seen = {};
  }
  // What is no DRM node may still be the other kind.
  if (seen.what == What::unknown || (seen.what == What::other && wanted == What::rkchain)) {
    seen = {find_out(fd, wanted, status, entry), ++last_file};
    entry.identity.store(identity);
    set(entry, seen);
    if (fd > highest.load()) highest.store(fd);
  }
  if (seen.what != wanted) return seen;
  const bool learnt = create_bytes != 0 && entry.create_bytes.load() == 0;
  if (learnt) entry.create_bytes.store(create_bytes);
  if (learnt || !entry.announced.load()) announce(fd, entry);
  return seen;
}

}  // namespace

Seen known(int fd) noexcept { return fd >= 0 && fd < max_nodes ? of(entries[fd]) : Seen{}; }

Seen look(int fd, What wanted, std::uint32_t create_bytes) noexcept {
  struct stat status {};
  if (fd < 0 || status_of(fd, status) != 0) return {};
  if (fd >= max_nodes) {
    if (!told_full.exchange(true))
      unseen(Missing::table_full, 0, static_cast<std::uint64_t>(fd),
             "descriptors of such numbers are not followed");
    return {};
  }
  Entry& entry = entries[fd];
  const Seen seen = of(entry);
  const bool same = entry.identity.load(std::memory_order_relaxed) == identity_of(status);
  if (same && seen.what == What::other && wanted == What::rknpu) return seen;
  if (same && seen.what == wanted && entry.announced.load(std::memory_order_relaxed) &&
      (create_bytes == 0 || entry.create_bytes.load(std::memory_order_relaxed) != 0))
    return seen;
  const Guard guard;
  return settle(fd, wanted, create_bytes, status);
}

void copy_node(int from, int to) noexcept {
  if (to < 0 || to >= max_nodes || to == from) return;
  const Seen seen = known(from);
  if (!is_node(seen.what) && known(to).what == What::unknown) return;
  const KeepErrno keep;
  if (!same_process()) return;
  const Guard guard;
  drop(to);
  if (!is_node(known(from).what)) return;
  Entry &source = entries[from], &copy = entries[to];
  copy.identity.store(source.identity.load());
  copy.create_bytes.store(source.create_bytes.load());
  copy.version.store(source.version.load());
  set(copy, known(from));
  if (to > highest.load()) highest.store(to);
}

void drop_node(int fd) noexcept {
  if (known(fd).what == What::unknown) return;
  const KeepErrno keep;
  if (!same_process()) return;
  const Guard guard;
  drop(fd);
}

void drop_nodes(unsigned first, unsigned last) noexcept {
  const KeepErrno keep;
  if (!same_process()) return;
  const int top = highest.load();
  for (unsigned fd = first; static_cast<int>(fd) <= top && fd <= last && fd < max_nodes; fd++)
    drop_node(static_cast<int>(fd));
}

int descriptor_of(std::uint32_t file) noexcept {
  for (int i = 0; i <= highest.load(); i++)
    if (of(entries[i]).file == file && is_node(of(entries[i]).what)) return i;
  return -1;
}

void forget_nodes_after_fork() noexcept {
  for (int i = 0; i <= highest.load(); i++) entries[i].announced.store(false);
}

}  // namespace rkchain::capture::shim
