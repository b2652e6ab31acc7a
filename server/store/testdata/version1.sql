-- SPDX-License-Identifier: Apache-2.0

-- A store of schema version 1, as "sqlite3 PATH .dump" shows it: three tables,
-- routes, next hops, a group and answered requests.

PRAGMA application_id = 1349283394;
PRAGMA user_version = 1;
CREATE TABLE store (
  id INTEGER PRIMARY KEY,
  store_id INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  generation_floor INTEGER NOT NULL,
  tables_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
INSERT INTO store VALUES(1,4580511735132654793,16,1,-8648581562281169791,8441571637210397832);
CREATE TABLE tables (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  generation INTEGER NOT NULL,
  writer_epoch INTEGER NOT NULL,
  digest BLOB NOT NULL,
  objects_digest BLOB NOT NULL,
  first_request INTEGER NOT NULL,
  next_request INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
INSERT INTO tables VALUES(0,'default',9,5,X'7e0bedd394b083bef7ff731e16b87692',X'cdef2a56bca928463ca5917ccd8621f1',0,3,-512527380370123085);
INSERT INTO tables VALUES(1,'blue',1,0,X'1c217eaa57d68dd452c1b03349d7f6ab',X'00000000000000000000000000000000',0,1,7050786959752873476);
INSERT INTO tables VALUES(2,'later',2,0,X'00000000000000000000000000000000',X'00000000000000000000000000000000',0,0,3259902932045631434);
CREATE TABLE routes (
  table_id INTEGER NOT NULL,
  family INTEGER NOT NULL,
  address BLOB NOT NULL,
  length INTEGER NOT NULL,
  next_hop INTEGER NOT NULL,
  PRIMARY KEY (table_id, family, address, length)
) STRICT, WITHOUT ROWID;
INSERT INTO routes VALUES(0,4,X'0a14',16,7);
INSERT INTO routes VALUES(0,4,X'ffffffff',32,4294967294);
INSERT INTO routes VALUES(0,6,X'',0,8);
INSERT INTO routes VALUES(0,6,X'20010db800ab',48,100);
INSERT INTO routes VALUES(1,6,X'00000000000000000000000000000001',128,9);
CREATE TABLE next_hops (
  table_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  gateway TEXT,
  interface TEXT NOT NULL,
  weight INTEGER NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (table_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO next_hops VALUES(0,7,'192.0.2.1','eth0',1,'l''x');
INSERT INTO next_hops VALUES(0,8,'2001:db8::8','',3,'');
CREATE TABLE next_hop_groups (
  table_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  members TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (table_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO next_hop_groups VALUES(0,100,'7*1 8*3','');
CREATE TABLE requests (
  table_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  fingerprint INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  added INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  unchanged INTEGER NOT NULL,
  next_hops_added INTEGER NOT NULL,
  next_hops_changed INTEGER NOT NULL,
  next_hops_removed INTEGER NOT NULL,
  digest BLOB NOT NULL,
  accepted_nanos INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (table_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO requests VALUES(0,0,'a',-8148347369779044013,4,1,0,0,0,0,0,0,X'469776c552c6ead96054c156ad39c5ba',1795359533416687595,-6136704288364822983);
INSERT INTO requests VALUES(0,1,'b',3734368671849940318,5,1,0,0,0,0,0,0,X'28ae5a9e724ed40c551fc1251e335cec',1795359533425380531,7541516041088640557);
INSERT INTO requests VALUES(0,2,'c',1026997572477893146,8,0,0,1,0,0,0,0,X'e863e971b55db109d6f90b61dfe4679b',1795359533468187083,8484558022700624366);
INSERT INTO requests VALUES(1,0,'z',-3734897518708875362,1,1,0,0,0,0,0,0,X'1c217eaa57d68dd452c1b03349d7f6ab',1795359533586833022,-3957490362026367171);
CREATE VIEW route_list AS SELECT tables.name AS table_name, CASE family WHEN 4 THEN ((instr('123456789ABCDEF', substr(hex, 1, 1)) * 16) + instr('123456789ABCDEF', substr(hex, 2, 1))) || '.' || ((instr('123456789ABCDEF', substr(hex, 3, 1)) * 16) + instr('123456789ABCDEF', substr(hex, 4, 1))) || '.' || ((instr('123456789ABCDEF', substr(hex, 5, 1)) * 16) + instr('123456789ABCDEF', substr(hex, 6, 1))) || '.' || ((instr('123456789ABCDEF', substr(hex, 7, 1)) * 16) + instr('123456789ABCDEF', substr(hex, 8, 1))) ELSE lower(substr(hex, 1, 4) || ':' || substr(hex, 5, 4) || ':' || substr(hex, 9, 4) || ':' || substr(hex, 13, 4) || ':' || substr(hex, 17, 4) || ':' || substr(hex, 21, 4) || ':' || substr(hex, 25, 4) || ':' || substr(hex, 29, 4)) END || '/' || length AS prefix, next_hop FROM (SELECT *, substr(hex(address) || '00000000000000000000000000000000', 1, 32) AS hex FROM routes) JOIN tables ON tables.id = table_id;
