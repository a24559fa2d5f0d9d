"""Bars of a trace: its entries in order of time, its lanes, and their level of detail.

Readers draw them, and the writer stores those of coarse resolutions beside the entries. What a
window or a range of a report is, and all names of IPUs and runs, are not here.
"""
