// SPDX-License-Identifier: MIT
// Everything of the C++ interface.
#pragma once

#include "rkchain/chain.hpp"
#include "rkchain/device.hpp"
#include "rkchain/error.hpp"
#include "rkchain/stream.hpp"
#include "rkchain/types.hpp"
#include "rkchain/weights.hpp"
