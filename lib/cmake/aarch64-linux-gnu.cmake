# SPDX-License-Identifier: MIT
#
# Debian's cross compiler, with the arm64 libraries that scripts/arm64-sysroot
# unpacks and qemu-user to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(RKCHAIN_SYSROOT "" CACHE PATH "where the arm64 libraries were unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RKCHAIN_SYSROOT)
if(NOT RKCHAIN_SYSROOT)
  message(FATAL_ERROR "RKCHAIN_SYSROOT is not set: see scripts/arm64-sysroot")
endif()

# Nothing of the build machine but its programs.
set(CMAKE_FIND_ROOT_PATH "${RKCHAIN_SYSROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# So for pkg-config.
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${RKCHAIN_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR}
  "${RKCHAIN_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${RKCHAIN_SYSROOT}/usr/share/pkgconfig")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
