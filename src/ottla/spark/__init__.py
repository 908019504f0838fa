"""Topics in PySpark: the data source `format("ottla")` and a session that is set up for it.

from ottla.spark import session
spark = session()
spark.read.format("ottla").option("kafka.bootstrap.servers", …).option("subscribe", …).load()
"""

from ottla.spark.launch.packaging import write_package
from ottla.spark.launch.session import register, session

__all__ = ["register", "session", "write_package"]
