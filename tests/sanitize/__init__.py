"""Every kernel under a build that reports what C lets pass, fed with golden, corrupt and mutated data.

    python -m tests.sanitize                            both builds: 1,000,000 inputs (`make soak`)
    python -m tests.sanitize --build address --inputs 1000 --seed 7
    python -m tests.sanitize --build address --seed 7 --first 123 --inputs 1      one input again

    builds       the kernels with bounds checks, and with the address and undefined behaviour sanitizers
    inputs       the data it begins with, and the n-th input of a seed
    logs         a window of a log through every kernel that takes logs
    payloads     values of records through formats.kernels.payload
    requests     frames through formats.kernels.wire
    directories  partitions through verify, recover, compact, dump-segment, serve --read-only, the export's reading
    run          the loop in the process that has the build; what ends it is a report

Start with `run`. A report is a sanitizer's abort, an exception that is none of formats' or kcli's, one that C code
could not raise, or fifty inputs that take more than a minute of CPU.
"""
