"""The afalg backend in a real kernel: this one, where it has AF_ALG, else a virtual machine's."""
