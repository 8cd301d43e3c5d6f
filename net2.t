
real	1m30.355s
user	0m11.882s
sys	0m0.373s
