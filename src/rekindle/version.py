"""The version of Rekindle."""

VERSION = "0.1.0"
