"""Attempts in containers: the machine's engine, its images, and the program that stands for one."""
