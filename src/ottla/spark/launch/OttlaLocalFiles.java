// Hadoop's own classes for files of this machine, without the processes that they start.
//
// Hadoop starts `chmod` for every file that it makes and `readlink` for every file that it looks at
// before a rename, unless its native library is there, which no PySpark brings: twenty processes in
// each micro-batch of a streaming query. Java can do both itself since version 7.
//
// Everything else is Hadoop's: the checksums beside the files, the permissions, how a rename is done.
// Compiled by tools/build_local_files.py.

package ottla.spark;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** For `fs.file.impl`, in place of LocalFileSystem. */
public class OttlaLocalFiles extends LocalFileSystem {
  public OttlaLocalFiles() {
    super(new Raw());
  }

  /** For `fs.AbstractFileSystem.file.impl`, in place of LocalFs: Spark's checkpoints use it. */
  public static class Context extends ChecksumFs {
    public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(new RawContext(uri, conf));
    }
  }

  /** In place of RawLocalFs. */
  private static class RawContext extends DelegateToFileSystem {
    RawContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(uri, new Raw(), conf, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true; // as RawLocalFs: the system knows what it takes
    }
  }

  private static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.getStickyBit()) {
        super.setPermission(path, permission); // Java has no name for it
        return;
      }
      String letters =
          permission.getUserAction().SYMBOL
              + permission.getGroupAction().SYMBOL
              + permission.getOtherAction().SYMBOL;
      try {
        Files.setPosixFilePermissions(
            pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
      } catch (IOException | UnsupportedOperationException error) { // then its error is Hadoop's
        super.setPermission(path, permission);
      }
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      // Of what is no link the other says the same, after it has started `readlink`.
      return Files.isSymbolicLink(pathToFile(path).toPath())
          ? super.getFileLinkStatus(path)
          : getFileStatus(path);
    }
  }
}
