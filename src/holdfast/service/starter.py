"""The respawner under its former name.

A gateway of version 0.1.0 that restarts itself onto this version runs `python -m
holdfast.service.starter`.
"""

from holdfast.service.respawner import main

if __name__ == "__main__":
    main()
