package rekindle.tests;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, checksums and all, for both of its interfaces; see tests/quick_files.py. */
public class QuickFiles {

    /** Where Hadoop starts chmod and readlink, this calls the system. */
    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            StringBuilder mode = new StringBuilder(permission.getUserAction().SYMBOL);
            mode.append(permission.getGroupAction().SYMBOL).append(permission.getOtherAction().SYMBOL);
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(mode.toString()));
        }

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

        public int getUriDefaultPort() {
            return -1;
        }

        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public boolean isValidName(String name) {
            return true;
        }
    }
}
