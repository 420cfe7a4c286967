# SPDX-License-Identifier: GPL-2.0
"""Steps of tests/run.py."""
