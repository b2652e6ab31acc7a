# SPDX-License-Identifier: Apache-2.0

"""The messages of the contract planb.v1, generated when the package is built."""
