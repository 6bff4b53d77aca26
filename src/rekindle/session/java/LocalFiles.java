package rekindle;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, checksums and all, for both of its interfaces; see local_files.py. */
public final class LocalFiles {

    /** Where Hadoop starts chmod and readlink, this makes the calls that they make. */
    public static class Raw extends RawLocalFileSystem {

        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) { // Java has no call for it
                super.setPermission(path, permission);
                return;
            }
            String mode = permission.getUserAction().SYMBOL
                    + permission.getGroupAction().SYMBOL
                    + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(mode));
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
            return link ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }

    /** As org.apache.hadoop.fs.LocalFileSystem. */
    public static class OfFileSystem extends LocalFileSystem {

        public OfFileSystem() {
            super(new Raw());
        }
    }

    /** As org.apache.hadoop.fs.local.LocalFs. */
    public static class OfFileContext extends ChecksumFs {

        public OfFileContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(new RawOfFileContext(uri, conf));
        }
    }

    /** As org.apache.hadoop.fs.local.RawLocalFs. */
    public static class RawOfFileContext extends DelegateToFileSystem {

        public RawOfFileContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new Raw(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public boolean isValidName(String name) {
            return true;
        }
    }
}
