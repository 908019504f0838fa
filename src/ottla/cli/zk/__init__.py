"""`ottla zk`: a look at the znodes of any ZooKeeper, without changing one."""
