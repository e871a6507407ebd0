"""What others read: the views of the queue, the pools and the bastion."""
