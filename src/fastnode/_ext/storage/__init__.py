"""Reads of LevelDB: tables of files, and reads that are checked."""
